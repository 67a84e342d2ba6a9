// Ends a run that hangs. A thread looks whether the executor still begins ops; after `timeout` seconds
// without one it calls `on_hang` with what was running, once.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "model/backend/runner.h"

namespace isobar {

class Watchdog {
 public:
  Watchdog(const Runner& executor, double timeout_s, std::function<void(const std::string&)> on_hang);
  ~Watchdog();
  /// Time outside of the executor that is no hang (validation data, a checkpoint).
  void alive() { touches_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void watch();
  const Runner& executor_;
  const double timeout_s_;
  std::function<void(const std::string&)> on_hang_;
  std::atomic<int64_t> touches_{0};
  std::mutex mutex_;
  std::condition_variable stop_signal_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace isobar
