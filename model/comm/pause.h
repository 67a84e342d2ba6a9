// Waiting for other ranks. Most waits are short and MPI progresses only inside its calls, so a waiter polls
// for a while, then sleeps in short turns to free the core.
//
//   for (Pause pause; !comm.test(requests); pause()) …;
//
// Two ranks whose steps are shorter than a sleep can put each other to sleep in turn. Ranks with cores of
// their own (kOwnCores) therefore poll for longer than a late rank needs, on one host only: between hosts the
// kernel needs the core to move packets. Ranks that share cores sleep early, and longer the more of them
// share one.
//
// It never yields, and keeps MPI from it except in calls that cannot be polled (yielding.h): a sleeper is
// woken on time, but a yielding thread queues behind every busy process.
#pragma once
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace isobar::comm {

/// How long to poll before sleeping, and how long to sleep. A time, not a count, since polls differ in cost
/// by orders of magnitude.
struct Patience {
  std::chrono::microseconds awake{50}, asleep{20};
  bool operator==(const Patience&) const = default;
};
inline constexpr Patience kOwnCores{.awake = std::chrono::microseconds(500)};

/// For `per_core` ranks that share a core: together they wake it at most every 10 us.
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
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1000);  // ns; the default slack would add
                                                                           // 50 us
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
  Clock::time_point since_{};  // of the first poll
  bool asleep_ = false;
};

}  // namespace isobar::comm
