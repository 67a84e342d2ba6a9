#include "model/trace/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace isobar::trace {
namespace {

TEST(Recorder, KeepsEverySpanOfEveryLaneInOrderOfBegin) {
  constexpr int kEach = 20'000;
  SpanRecorder recorder(3, kEach);
  std::vector<std::thread> lanes;
  lanes.reserve(plan::kLanes);
  for (int l = 0; l < plan::kLanes; ++l)
    lanes.emplace_back([&, l] {
      for (int i = 0; i < kEach; ++i) {
        const int64_t t0 = recorder.now();
        recorder.record(static_cast<plan::Lane>(l), i / 100, i, 2 * i, i % 7, t0, recorder.now());
      }
    });
  for (std::thread& t : lanes) t.join();
  recorder.record_step(5, 10, 20);
  const Timeline t = recorder.take();
  ASSERT_EQ(t.spans.size(), static_cast<size_t>(kEach * plan::kLanes));
  EXPECT_TRUE(std::is_sorted(t.spans.begin(), t.spans.end(),
                             [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; }));
  std::vector<int> next(plan::kLanes, 0);
  for (const Span& s : t.spans) {
    int& i = next[static_cast<size_t>(s.lane)];
    ASSERT_EQ(s.instr, i);  // begin times of a lane ascend, so its spans stay in order
    ASSERT_EQ(s.rank, 3);
    ASSERT_EQ(s.op, 2 * i);
    ASSERT_EQ(s.step, i / 100);
    ASSERT_EQ(s.micro, i % 7);
    ASSERT_LE(s.begin_ns, s.end_ns);
    ++i;
  }
  ASSERT_EQ(t.steps.size(), 1u);
  EXPECT_EQ(t.steps[0].end_ns, 20);
  EXPECT_EQ(recorder.dropped(), 0);
}

TEST(Recorder, CountsWhatFoundNoRoomAndStartsAfreshAfterTake) {
  SpanRecorder recorder(0, 10);
  for (int i = 0; i < 13; ++i) recorder.record(plan::Lane::dp, 0, i, i, 0, i, i + 1);
  for (int i = 0; i < 11; ++i) recorder.record_step(i, i, i + 1);
  EXPECT_EQ(recorder.dropped(), 3 + 1);
  testing::internal::CaptureStderr();
  const Timeline first = recorder.take();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("4 spans dropped"), std::string::npos) << said;
  EXPECT_EQ(first.spans.size(), 10u);
  EXPECT_EQ(first.steps.size(), 10u);
  recorder.record(plan::Lane::dp, 1, 42, 0, 0, 0, 1);
  const Timeline second = recorder.take();
  ASSERT_EQ(second.spans.size(), 1u);
  EXPECT_EQ(second.spans[0].instr, 42);
  EXPECT_TRUE(second.steps.empty());
}

}  // namespace
}  // namespace isobar::trace
