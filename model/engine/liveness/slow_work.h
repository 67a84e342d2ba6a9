// Work of a rank that may take arbitrarily long because it depends on a disk or a pipe: opening and reading
// data, loading and writing checkpoints, writing results, start-up. The watchdog does not treat it as a hang,
// on this rank or on those that wait for it.
//
//   SlowWork slow;
//   {
//     const auto part = slow.begin("reading samples");
//     loader.next();
//   }
//
// Waiting for other ranks is not slow work: inside of it, put `const SlowWork::Wait wait(slow);` around a
// barrier.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace isobar::engine {

class SlowWork {
 public:
  class Part {
   public:
    Part(SlowWork* work, const char* what) : work_(work) {
      if (work_) before_ = work_->enter(what);
    }
    ~Part() {
      if (work_) work_->leave(before_);
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    SlowWork* work_;
    const char* before_ = nullptr;
  };
  class Wait {
   public:
    explicit Wait(SlowWork& work) : work_(work) { work_.leave(work_.what()); }
    ~Wait() { work_.enter(work_.what()); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    SlowWork& work_;
  };

  /// `what`: a literal, as in "rank 3 has been … for 300 s". Callable from any thread; parts may nest.
  [[nodiscard]] Part begin(const char* what) { return {this, what}; }

  // ---- for the watchdog ----
  bool under_way() const { return depth_.load() > 0; }
  const char* what() const { return what_.load(); }
  double seconds() const {  // since a part began or ended
    return static_cast<double>(now_ns() - since_ns_.load()) * 1e-9;
  }
  int64_t parts() const { return parts_.load(); }  // begun so far

 private:
  static int64_t now_ns() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  const char* enter(const char* what) {
    since_ns_ = now_ns();
    ++parts_;
    ++depth_;
    return what_.exchange(what);
  }
  void leave(const char* before) {
    since_ns_ = now_ns();
    ++parts_;
    --depth_;
    what_ = before;
  }

  std::atomic<int> depth_{0};
  std::atomic<const char*> what_{"working"};
  std::atomic<int64_t> since_ns_{0}, parts_{0};
};

}  // namespace isobar::engine
