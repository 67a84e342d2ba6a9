#include "model/trace/recorder.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>

namespace isobar::trace {
namespace {

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

SpanRecorder::SpanRecorder(int rank, size_t capacity)
    : capacity_(capacity), rank_(rank), steps_(std::make_unique<StepTime[]>(capacity)) {
  for (Track& t : tracks_) t.spans = std::make_unique<Span[]>(capacity);  // zeroed, so that pages are mapped
  origin_ = steady_ns();
}

int64_t SpanRecorder::now() const noexcept {
  return steady_ns() - origin_;
}

void SpanRecorder::record_step(int32_t step, int64_t t0, int64_t t1) noexcept {
  const size_t n = step_count_.load(std::memory_order_relaxed);
  if (n == capacity_) {
    steps_dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  steps_[n] = {rank_, step, t0, t1};
  step_count_.store(n + 1, std::memory_order_release);
}

int64_t SpanRecorder::dropped() const noexcept {
  int64_t n = steps_dropped_.load(std::memory_order_relaxed);
  for (const Track& t : tracks_) n += t.dropped.load(std::memory_order_relaxed);
  return n;
}

Timeline SpanRecorder::take() {
  Timeline out;
  size_t spans = 0;
  for (const Track& t : tracks_) spans += t.count.load(std::memory_order_acquire);
  out.spans.reserve(spans);
  for (Track& t : tracks_) {
    const size_t n = t.count.load(std::memory_order_acquire);
    out.spans.insert(out.spans.end(), t.spans.get(), t.spans.get() + n);
    t.count.store(0, std::memory_order_relaxed);
  }
  std::stable_sort(out.spans.begin(), out.spans.end(),
                   [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  const size_t steps = step_count_.exchange(0, std::memory_order_acquire);
  out.steps.assign(steps_.get(), steps_.get() + steps);
  if (const int64_t now_dropped = dropped(); now_dropped > reported_) {
    std::fprintf(
        stderr, "isobar: rank %d: trace is incomplete: %" PRId64 " spans dropped, room is for %zu per lane\n",
        rank_, now_dropped - reported_, capacity_);
    reported_ = now_dropped;
  }
  return out;
}

}  // namespace isobar::trace
