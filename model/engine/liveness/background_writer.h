// A background thread for work that may block (such as a write to a hanging disk), on behalf of a thread that
// must not.
//
//   BackgroundWriter background;
//   background.later([&] { log.heartbeat(); }, true);
//   BackgroundWriter::within(3, [&] { log.end(event); });            // waits for it, but not forever
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

namespace isobar::engine {

class BackgroundWriter {
 public:
  BackgroundWriter() : thread_([this] { work(); }) {}
  ~BackgroundWriter() {  // waits for the current task
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// `droppable`: skipped while another task is queued or running.
  void later(std::function<void()> task, bool droppable = false) {
    const std::lock_guard lock(mutex_);
    if (droppable && (busy_ || !todo_.empty())) return;
    todo_.push_back(std::move(task));
    changed_.notify_all();
  }
  /// Runs the task on an extra thread, whatever the others hang in, and waits at most `seconds`; for a
  /// process about to end.
  static void within(double seconds, std::function<void()> task) {
    auto done = std::make_shared<std::promise<void>>();
    auto over = done->get_future();
    std::thread([done, task = std::move(task)] {
      run(task);
      done->set_value();
    }).detach();
    over.wait_for(std::chrono::duration<double>(seconds));
  }

 private:
  static void run(const std::function<void()>& task) {
    try {
      task();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "isobar: %s\n", e.what());
    }
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !todo_.empty(); });
      if (todo_.empty()) return;
      const auto task = std::move(todo_.front());
      todo_.pop_front();
      busy_ = true;
      lock.unlock();
      run(task);
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> todo_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace isobar::engine
