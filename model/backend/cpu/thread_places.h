// Binds a rank's threads to cores. The operating system moves unbound threads away from the memory that they
// first touched, and sometimes puts two on one core.
//
//   cpu::place_threads({0, 1}, {0, 1, 2});   // thread t of every team runs on the t-th of the first
//
// Each thread binds itself when it next works (on_threads), since OpenMP may replace threads. The first
// thread stays free among all of `around`, which threads that it starts later (loaders, communication)
// inherit.
#pragma once
#include <atomic>
#include <vector>

namespace isobar::cpu {

/// Takes effect with the next work. `around`: CPUs of the calling thread, the first of its teams, and of
/// threads that it starts; if `cpus` is empty, of all.
void place_threads(std::vector<int> cpus, const std::vector<int>& around);

namespace detail {
extern std::atomic<int> places_version;
inline thread_local int own_places = 0;
void take_place(int thread);
}  // namespace detail

/// Binds the calling thread, `t` of its team, if places have changed.
inline void keep_place(int t) {
  if (detail::own_places != detail::places_version.load(std::memory_order_relaxed)) detail::take_place(t);
}

}  // namespace isobar::cpu
