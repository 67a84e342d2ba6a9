// The cores that a rank's threads are bound to. The operating system moves threads that are not, away from
// the memory that they touched first and now and then two onto one core.
//
//   cpu::place_threads({0, 1}, {0, 1, 2});   // thread t of every team stays on the t-th of the first
//
// Each thread binds itself when it next works (on_threads), since OpenMP may end threads and start new ones.
// The first is left free among all of `around`: what it starts later, such as loaders and the communication's
// thread, inherits that.
#pragma once
#include <atomic>
#include <vector>

namespace isobar::cpu {

/// From the next piece of work on. `around`: CPUs of the calling thread, which is the first of its teams, and
/// of the threads that it starts; where `cpus` is empty, of all.
void place_threads(std::vector<int> cpus, const std::vector<int>& around);

namespace detail {
extern std::atomic<int> places_version;
inline thread_local int own_places = 0;
void take_place(int thread);
}  // namespace detail

/// Of thread `t` of a team.
inline void keep_place(int t) {
  if (detail::own_places != detail::places_version.load(std::memory_order_relaxed)) detail::take_place(t);
}

}  // namespace isobar::cpu
