#include "model/engine/liveness/watchdog.h"

#include <algorithm>
#include <cstdio>

#include "model/engine/liveness/signals.h"

namespace isobar::engine {
namespace {

using namespace std::chrono_literals;

// Fields of a heartbeat. A time carries its rank: (ms, rank) packed in one number.
enum Value { kQuiet, kStuck, kSlow, kSignal, kBoundary, kRunning, kStaying };
constexpr int64_t kRanks = int64_t{1} << 20;

int64_t with_rank(double seconds, int rank) {
  return static_cast<int64_t>(seconds * 1e3) * kRanks + rank;
}

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

Watchdog::Watchdog(const comm::Mpi* mpi, const SlowWork& slow, BackgroundWriter& background, double timeout_s,
                   WatchdogReports reports)
    : rank_(mpi ? mpi->rank() : 0),
      slow_(slow),
      background_(background),
      timeout_s_(timeout_s),
      reports_(std::move(reports)),
      beat_(mpi),
      moved_(Clock::now()),
      reported_alive_(moved_),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::follow(const Runner* runner) {
  const std::lock_guard lock(mutex_);
  runner_ = runner;
}

bool Watchdog::stops_at(int64_t done) {
  std::unique_lock lock(mutex_);
  if (asked_ && agreed_ < 0) {
    boundary_ = done;
    waiting_ = true;
    changed_.wait(lock, [this] { return agreed_ >= 0; });
    waiting_ = false;
  }
  boundary_ = done + 1;
  return agreed_ >= 0 && done >= agreed_;
}

void Watchdog::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  StopSignals::receive_here();
  const auto tick = std::chrono::duration<double>(std::min(0.1, timeout_s_ / 40));
  auto last = posted_ = Clock::now();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool leaving = leaving_;
      changed_.wait_for(lock, urgent() ? 2ms : tick, [&] { return stop_ || leaving_ != leaving; });
      if (stop_) return;
    }
    const auto now = Clock::now();
    // If this process itself was stopped or starved, that time is unknown and does not count.
    if (seconds_between(last, now) > std::max(0.5, timeout_s_ / 4)) moved_ = posted_ = now;
    last = now;
    look(now);
    look_for_signals(now);
    if (!beat(now)) return;
  }
}

// One heartbeat after the other.
bool Watchdog::beat(Clock::time_point now) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    due = urgent() || seconds_between(posted_, now) >= timeout_s_ / 10;
  }
  if (!under_way_ && due) {
    beat_.post(mine(now));
    posted_ = now;
    under_way_ = true;
  }
  if (!under_way_) return true;
  if (beat_.test()) {
    under_way_ = false;
    return !heed(beat_.all(), now);
  }
  // A launcher that ends the run after a rank's death has signalled this rank, and will not wait long.
  const bool launcher_ends_it =
      signalled_at_ && StopSignals::pressing() && seconds_between(*signalled_at_, now) < 10;
  const bool late =
      seconds_between(posted_, now) > timeout_s_ + (rank_ == 0 ? 0 : 1);  // rank 0 reports first
  if (!late || launcher_ends_it) return true;
  if (reports_.hang)
    reports_.hang(doing() + "; a rank no longer answers: it is stopped, or its host is gone");
  return false;
}

// Progress of this rank, and what it waits for.
void Watchdog::look(Clock::time_point now) {
  int64_t moves = slow_.parts();
  {
    const std::lock_guard lock(mutex_);
    if (runner_) moves += runner_->progress();
  }
  if (moves != seen_ || slow_.under_way()) {
    seen_ = moves;
    moved_ = now;
    ++moves_;
  }
  const int notices = slow_.under_way() ? static_cast<int>(slow_.seconds() / timeout_s_) : 0;
  if (notices > notices_)
    background_.later([rank = rank_, what = slow_.what(), seconds = slow_.seconds()] {
      std::fprintf(stderr, "isobar: rank %d has been %s for %.0f s; the run waits for it\n", rank, what,
                   seconds);
    });
  notices_ = notices;
  if (reports_.alive && moves_ != moves_reported_ &&
      seconds_between(reported_alive_, now) > std::min(5.0, timeout_s_ / 10)) {
    moves_reported_ = moves_;
    reported_alive_ = now;
    background_.later(reports_.alive, true);
  }
}

void Watchdog::look_for_signals(Clock::time_point now) {
  const int count = StopSignals::count();
  if (count == 0) return;
  if (!signalled_at_) signalled_at_ = now;
  if (count > 1 && reports_.at_once) reports_.at_once(StopSignals::first());
  // mpiexec waits only a second. A report from one rank suffices, and some others may be gone.
  if (!pressed_ && StopSignals::pressing() && reports_.pressing && rank_ < 8 &&
      seconds_between(*signalled_at_, now) > (rank_ == 0 ? 0.4 : 0.6)) {
    pressed_ = true;
    background_.later([press = reports_.pressing, signal = StopSignals::first()] { press(signal); });
  }
}

// Heartbeats follow each other without a pause while ranks have to agree on something.
bool Watchdog::urgent() {
  return leaving_ || (asked_ ? agreed_ < 0 : signalled_at_.has_value());
}

double Watchdog::quiet_s(Clock::time_point now) const {
  return leaving_ || waiting_ ? 0 : seconds_between(moved_, now);  // these states wait for others
}

comm::Heartbeat::Values Watchdog::mine(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  comm::Heartbeat::Values v{};
  v[kQuiet] = with_rank(quiet_s(now), rank_);
  v[kStuck] = with_rank(runner_ && runner_->waits_for_others() ? 0 : quiet_s(now), rank_);
  v[kSlow] = slow_.under_way() ? with_rank(1 + slow_.seconds(), rank_) : 0;
  v[kSignal] = StopSignals::first();
  v[kBoundary] = boundary_;
  v[kRunning] = !asked_ || boundary_ < 0;  // past its next boundary: may continue
  v[kStaying] = !leaving_;
  return v;
}

bool Watchdog::heed(const comm::Heartbeat::Values& all, Clock::time_point now) {
  if (all[kSlow] > 0) {
    moved_ = now;
    ++moves_;
  }
  {
    const std::lock_guard lock(mutex_);
    if (all[kSignal] > 0 && !asked_) {
      signal_ = static_cast<int>(all[kSignal]);
      asked_ = true;
    } else if (asked_ && agreed_ < 0 && all[kRunning] == 0) {
      agreed_ = all[kBoundary];
    }
  }
  changed_.notify_all();
  if (all[kSlow] == 0 && is_named(all) && reports_.hang) reports_.hang(doing());
  return all[kStaying] == 0;
}

// True if this rank is the one that holds up all others. Ranks become quiet almost simultaneously, so ranks
// that wait in a transfer are named only if no other rank has been quiet for about as long.
bool Watchdog::is_named(const comm::Heartbeat::Values& all) const {
  const auto ms = [&](Value v) { return static_cast<double>(all[v] / kRanks); };
  if (ms(kQuiet) <= timeout_s_ * 1e3) return false;
  const Value who = ms(kStuck) > timeout_s_ * 1e3 / 2 ? kStuck : kQuiet;
  return all[who] % kRanks == rank_;
}

std::string Watchdog::doing() {
  const std::lock_guard lock(mutex_);
  if (waiting_) return "waiting for a step to stop after";
  if (leaving_) return "waiting for the others' end";
  return runner_ ? runner_->now_running() : "starting up";
}

}  // namespace isobar::engine
