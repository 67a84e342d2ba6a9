// Ends a run that hangs, distinguishes a hang from a slow disk, and lets all ranks stop after the same step.
//
// A thread of each rank checks whether the rank starts ops and what it waits for. These threads take part in
// a collective heartbeat (model/comm/heartbeat.h), ten in `timeout` seconds, that carries:
//
// - the longest time that a rank has been quiet: no op and no slow work has begun or ended on it; and the
//   same among ranks that do not merely wait for others in a transfer;
// - whether slow work (slow_work.h) is under way on any rank; then no rank counts as quiet, because the
//   others wait for that one;
// - whether a rank was asked to stop.
//
// A run hangs if a rank has been quiet for `timeout` seconds with no slow work anywhere (an op that never
// ends, a collective whose partner is elsewhere). That rank reports it, unless it only waits for another that
// has been quiet for about as long, which then reports. A run also hangs if a heartbeat takes longer, because
// a process is stopped or its host is gone. A rank in a write of minutes is no hang: its watchdog answers.
// Processes that die by a signal are left to the launcher. In a world of one the heartbeat is local.
//
// Stopping: after a heartbeat with a stop request every rank waits at its next step boundary. Once all have
// reported theirs, the latest boundary is where all stop, and ranks at earlier ones continue to it. Without a
// request no rank waits.
//
//   SlowWork slow;
//   BackgroundWriter background;
//   Watchdog watch(&mpi, slow, background, spec.run.hang_timeout, {.hang = …});
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
#include "model/engine/liveness/background_writer.h"
#include "model/engine/liveness/slow_work.h"

namespace isobar::engine {

struct WatchdogReports {  // each may be empty
  /// Called on the watching thread: the rank made no progress for `timeout` seconds in `what`, or other ranks
  /// do not answer. Ends the process.
  std::function<void(const std::string& what)> hang = {};
  std::function<void(int signal)> at_once = {};  // the same, for a second signal
  // Called on the background thread:
  std::function<void(int signal)> pressing = {};  // a signal whose sender may not wait for a step
  std::function<void()> alive = {};               // the run proceeds, or waits for a disk
};

class Watchdog {
 public:
  /// Collective over all ranks; `mpi` null: local. `slow` and `background` must outlive it.
  Watchdog(const comm::Mpi* mpi, const SlowWork& slow, BackgroundWriter& background, double timeout_s,
           WatchdogReports reports);
  ~Watchdog();

  /// Runner whose ops count as progress; null: none.
  void follow(const Runner* runner);
  /// Called by every rank before each step with the number of completed steps. Returns true on all ranks at
  /// the same step once one was asked to stop; waits only then.
  bool stops_at(int64_t done);
  int stop_signal() const { return signal_; }  // 0: none
  /// Called by every rank when it is done; returns when all have called it, and stops watching.
  void leave();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  bool beat(Clock::time_point now);  // false: all have left, or one no longer answers
  void look(Clock::time_point now);
  void look_for_signals(Clock::time_point now);
  comm::Heartbeat::Values mine(Clock::time_point now);
  bool heed(const comm::Heartbeat::Values& all, Clock::time_point now);  // true: all have left
  bool urgent();
  double quiet_s(Clock::time_point now) const;
  bool is_named(const comm::Heartbeat::Values& all) const;
  std::string doing();

  const int rank_;
  const SlowWork& slow_;
  BackgroundWriter& background_;
  const double timeout_s_;
  const WatchdogReports reports_;
  comm::Heartbeat beat_;

  // used by the watching thread only
  int64_t seen_ = -1;
  Clock::time_point moved_, reported_alive_, posted_;
  bool under_way_ = false;  // a heartbeat, since posted_
  int64_t moves_ = 0, moves_reported_ = 0;
  int notices_ = 0;
  std::optional<Clock::time_point> signalled_at_;
  bool pressed_ = false;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  const Runner* runner_ = nullptr;
  bool stop_ = false, leaving_ = false;
  bool asked_ = false;     // all ranks know it, at the latest after the next heartbeat
  bool waiting_ = false;   // in stops_at()
  int64_t boundary_ = -1;  // next step boundary of this rank; unknown before the first
  int64_t agreed_ = -1;
  std::atomic<int> signal_{0};
  std::thread thread_;
};

}  // namespace isobar::engine
