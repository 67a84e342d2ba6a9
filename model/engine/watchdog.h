// Ends a run that hangs, tells it from one that waits for a disk, and lets all ranks stop after one step.
//
// A thread of each rank looks whether the rank begins ops, and what it waits for; and the threads of all
// ranks take part in a heartbeat (model/comm/heartbeat.h), ten in `timeout` seconds, that says for all of
// them
//
// - how long the rank has been quiet that has been so for longest: neither an op nor slow work has begun or
//   ended on it; and the same of the ranks that do not just wait for others in a transfer;
// - whether slow work (slow_work.h) is under way on any rank. Then nobody is quiet, however long it takes:
//   whoever waits, waits for that;
// - whether a rank was asked to stop.
//
// So a run hangs when a rank has been quiet for `timeout` seconds while no rank waited for a disk (an op that
// never ends, a collective whose partner is elsewhere), and that rank says so, unless it only waits for one
// that is about as quiet: then that one does; or when a heartbeat is not over in that time, because a process
// is stopped or its host is gone. A rank in a write that takes minutes
// is neither: its watchdog takes part. A process that dies by a signal is its launcher's to see. In a world
// of one the heartbeat is the rank's own.
//
// To stop: a heartbeat that says that somebody was asked makes every rank stay at the boundary between two
// steps that it comes to next. Once all have said which that is, the last of them is where all stop; ranks
// that stay at an earlier one go on to it. Training pays nothing for that: no rank waits before it was asked.
//
//   SlowWork slow;
//   Errands errands;
//   Watchdog watch(&mpi, slow, errands, spec.run.hang_timeout, {.hang = …});
//   watch.follow(&runner);
//   for (int64_t done = first; done < steps && !watch.stops_at(done); ++done) …;
//   watch.leave();
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "model/backend/runner.h"
#include "model/comm/heartbeat.h"
#include "model/engine/errands.h"
#include "model/engine/slow_work.h"

namespace isobar {

struct WatchdogReports {  // each may be empty
  /// On the watching thread: the rank made no progress for `timeout` seconds in `what`, or others do not
  /// answer. Ends the process.
  std::function<void(const std::string& what)> hang = {};
  std::function<void(int signal)> at_once = {};  // the same, for a second signal
  // Among the errands:
  std::function<void(int signal)> pressing = {};  // a signal came whose sender may not wait for a step
  std::function<void()> alive = {};               // the run goes on, or waits for a disk
};

class Watchdog {
 public:
  /// Collective over all ranks; `mpi` null: of this one alone. `slow` and `errands` outlive it.
  Watchdog(const Mpi* mpi, const SlowWork& slow, Errands& errands, double timeout_s, WatchdogReports reports);
  ~Watchdog();

  /// Whose ops are progress from here on; null: nobody's.
  void follow(const Runner* runner);
  /// By every rank before each step, with the number of steps done: true on all ranks at the same step, once
  /// one of them was asked to stop. Waits only then.
  bool stops_at(int64_t done);
  int stop_signal() const { return signal_; }  // 0: none
  /// By every rank when its part is done; returns when all have said so, and watches no longer.
  void leave();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  void look(Clock::time_point now);
  void look_for_signals(Clock::time_point now);
  Heartbeat::Values mine(Clock::time_point now);
  bool heed(const Heartbeat::Values& all, Clock::time_point now);  // true: all have left
  bool urgent();
  double quiet_s(Clock::time_point now) const;
  bool is_named(const Heartbeat::Values& all) const;
  std::string doing();

  const int rank_;
  const SlowWork& slow_;
  Errands& errands_;
  const double timeout_s_;
  const WatchdogReports reports_;
  Heartbeat beat_;

  // of the watching thread
  int64_t seen_ = -1;
  Clock::time_point moved_, told_alive_;
  int64_t moves_ = 0, moves_told_ = 0;
  int notices_ = 0;
  std::optional<Clock::time_point> signalled_at_;
  bool pressed_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  const Runner* runner_ = nullptr;
  bool stop_ = false, leaving_ = false;
  bool asked_ = false;     // every rank knows, or will with the next heartbeat
  bool waiting_ = false;   // stops_at() does
  int64_t boundary_ = -1;  // the next between two steps that this rank comes to; unknown before the first
  int64_t agreed_ = -1;
  std::atomic<int> signal_{0};
  std::thread thread_;
};

}  // namespace isobar
