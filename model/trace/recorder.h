// Records the spans of an executing rank. Memory is allocated and touched beforehand, and each lane has one
// writer, so recording is a store of 48 bytes without lock or allocation.
//
//   SpanRecorder recorder(rank, program.instrs.size() * steps);      // spans per lane
//   const int64_t t0 = recorder.now();
//   run(op);
//   recorder.record(Lane::compute, step, instr, op, micro, t0, recorder.now());   // on the lane's thread
//   Timeline timeline = recorder.take();                             // on any thread, once the lanes are
//   idle
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include "model/trace/span.h"

namespace isobar::trace {

class SpanRecorder {
 public:
  /// `capacity`: spans per lane, and steps, between two take()s; further ones are counted and dropped.
  SpanRecorder(int rank, size_t capacity);

  /// Nanoseconds since construction, on a steady clock.
  int64_t now() const noexcept;
  /// std::chrono::steady_clock's value at time 0, which all ranks of a host share.
  int64_t origin_ns() const noexcept { return origin_; }

  void record(plan::Lane lane, int32_t step, int32_t instr, int32_t op, int32_t micro, int64_t t0,
              int64_t t1) noexcept {
    Track& track = tracks_[static_cast<size_t>(lane)];
    const size_t n = track.count.load(std::memory_order_relaxed);  // only this thread writes it
    if (n == capacity_) {
      track.dropped.store(track.dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    track.spans[n] = {rank_, step, instr, op, micro, lane, t0, t1};
    track.count.store(n + 1, std::memory_order_release);  // take() sees only whole spans
  }

  /// The whole step; called by the training loop's thread.
  void record_step(int32_t step, int64_t t0, int64_t t1) noexcept;

  /// Moves out all spans in order of begin, and logs how many were dropped. The lanes must be idle: a span
  /// recorded meanwhile may be lost.
  Timeline take();
  /// Spans and steps dropped since construction.
  int64_t dropped() const noexcept;

 private:
  struct alignas(128) Track {  // a lane's own cache lines
    std::unique_ptr<Span[]> spans;
    std::atomic<size_t> count{0};
    std::atomic<int64_t> dropped{0};
  };
  std::array<Track, plan::kLanes> tracks_;
  size_t capacity_;
  int64_t origin_;
  int32_t rank_;
  std::unique_ptr<StepTime[]> steps_;
  std::atomic<size_t> step_count_{0};
  std::atomic<int64_t> steps_dropped_{0};
  int64_t reported_ = 0;  // dropped spans already logged
};

}  // namespace isobar::trace
