#include "model/engine/watchdog.h"

#include <chrono>

namespace isobar {

Watchdog::Watchdog(const Runner& executor, double timeout_s, std::function<void(const std::string&)> on_hang)
    : executor_(executor),
      timeout_s_(timeout_s),
      on_hang_(std::move(on_hang)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_signal_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  using clock = std::chrono::steady_clock;
  auto moved = clock::now();
  int64_t seen = -1;
  std::unique_lock lock(mutex_);
  while (!stop_signal_.wait_for(lock, std::chrono::milliseconds(200), [this] { return stop_; })) {
    const int64_t now = executor_.progress() + touches_.load(std::memory_order_relaxed);
    if (now != seen) {
      seen = now;
      moved = clock::now();
    } else if (std::chrono::duration<double>(clock::now() - moved).count() > timeout_s_) {
      on_hang_(executor_.now_running());
      return;
    }
  }
}

}  // namespace isobar
