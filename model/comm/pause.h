// Waiting for other ranks. Most waits are short, and MPI moves data only inside its calls: so whoever waits
// asks again at once for a while, then sleeps in short turns, because others want the core.
//
//   for (Pause pause; !comm.test(requests); pause()) …;
//
// Two ranks whose steps take less than a sleep make each other sleep: one is late once, the other falls
// asleep over it and is late in turn. A step of 60 us then takes 200 to 400. So where every rank has its
// cores to itself (kOwnCores) it asks for longer than one that was late needs to come, and so does its
// communication thread. Not across hosts: there the kernel wants the core to move packets, and an all-reduce
// of two hosts of one core took 4 ms behind ranks that asked on. Ranks that share cores soon sleep, and the
// longer the more of them would wake: eight on two cores take 52 ms a step for 62, and 80 of the processors'
// for 112.
//
// It never yields, and MPI is kept from it but for what no rank can leave (yielding.h): whoever sleeps is
// woken as soon as its time has come, but whoever yields stands behind all that compute, some milliseconds
// each time on a machine that others use. Two ranks beside four busy processes took more than ten times as
// long so.
#pragma once
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace isobar {

/// How long it asks before it sleeps, and how long it sleeps. Time, not a number of asks: an ask of MPI takes
/// 0.2 us, one of another thread's progress 5 ns.
struct Patience {
  std::chrono::microseconds awake{50}, asleep{20};
  bool operator==(const Patience&) const = default;
};
inline constexpr Patience kOwnCores{.awake = std::chrono::microseconds(500)};

/// Of those that share cores, `per_core` of them: together they wake each core no more than every 10 us.
inline Patience on_shared_cores(int64_t per_core) {
  using std::chrono::microseconds;
  return {.awake = microseconds(10), .asleep = microseconds(10 * std::max<int64_t>(per_core, 2))};
}

class Pause {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Pause(Patience patience = {}) : patience_(patience) {}
  void operator()() {
    if (!asleep_) {
      const Clock::time_point now = Clock::now();
      if (since_ == Clock::time_point{}) since_ = now;
      asleep_ = now - since_ > patience_.awake;
      return;
    }
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1000);  // ns: not 50 us longer than asked
    static_cast<void>(slack);
    const timespec turn{0, std::chrono::nanoseconds(patience_.asleep).count()};
    nanosleep(&turn, nullptr);
  }
  void again() {
    since_ = {};
    asleep_ = false;
  }
  bool asleep() const { return asleep_; }

 private:
  Patience patience_;
  Clock::time_point since_{};  // of the first ask
  bool asleep_ = false;
};

}  // namespace isobar
