// Where an executing rank writes its spans: memory for them is taken and touched beforehand, each lane has
// one writer (the thread that executes it), and recording is a store of 48 bytes: no lock, no allocation.
//
//   SpanRecorder recorder(rank, program.instrs.size() * steps);      // spans per lane
//   const int64_t t0 = recorder.now();
//   run(op);
//   recorder.record(Lane::compute, step, instr, op, micro, t0, recorder.now());   // the lane's thread
//   Timeline timeline = recorder.take();                             // any thread, once the lanes rest
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "model/trace/span.h"

namespace isobar {

class SpanRecorder {
 public:
  /// `capacity`: spans per lane, and steps, between two take()s; what comes beyond is counted and dropped.
  SpanRecorder(int rank, size_t capacity);

  /// Nanoseconds since the recorder was made, of a clock that never runs backwards.
  int64_t now() const noexcept;
  /// `origin`: what an std::chrono::steady_clock read at time 0. On one host all ranks share that clock.
  int64_t origin_ns() const noexcept { return origin_; }

  void record(Lane lane, int32_t step, int32_t instr, int32_t op, int32_t micro, int64_t t0,
              int64_t t1) noexcept {
    Track& track = tracks_[static_cast<size_t>(lane)];
    const size_t n = track.count.load(std::memory_order_relaxed);  // only this thread writes it
    if (n == capacity_) {
      track.dropped.store(track.dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    track.spans[n] = {rank_, step, instr, op, micro, lane, t0, t1};
    track.count.store(n + 1, std::memory_order_release);  // take() sees whole spans only
  }

  /// The whole step, by the thread of the training loop.
  void record_step(int32_t step, int64_t t0, int64_t t1) noexcept;

  /// Moves out everything recorded so far, in order of begin, and starts afresh. Says on the log how many
  /// spans were dropped, if any. The lanes must be at rest: a span recorded meanwhile may be lost.
  Timeline take();
  /// Spans and steps that found no room, since the recorder was made.
  int64_t dropped() const noexcept;

 private:
  struct alignas(128) Track {  // a lane's own cache lines
    std::unique_ptr<Span[]> spans;
    std::atomic<size_t> count{0};
    std::atomic<int64_t> dropped{0};
  };
  std::array<Track, kLanes> tracks_;
  size_t capacity_;
  int64_t origin_;
  int32_t rank_;
  std::unique_ptr<StepTime[]> steps_;
  std::atomic<size_t> step_count_{0};
  std::atomic<int64_t> steps_dropped_{0};
  int64_t reported_ = 0;  // dropped spans already spoken of
};

}  // namespace isobar
