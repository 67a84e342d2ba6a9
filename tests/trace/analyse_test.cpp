#include "tests/trace/analyse.h"

#include <gtest/gtest.h>

#include <random>

#include "model/plan/ops/work.h"
#include "tests/trace/fixture.h"

namespace isobar::trace {
namespace {

constexpr double kUs = 1e-6;

TEST(Analyse, FixtureHasTheWaitItIsMadeFor) {
  const SmallPlan s = small_plan();
  ASSERT_EQ(s.program.instrs.size(), 4u);
  EXPECT_EQ(s.program.instrs[1].waits, std::vector<int32_t>{0});
  EXPECT_TRUE(s.program.instrs[2].waits.empty());
  EXPECT_EQ(s.program.instrs[3].waits, std::vector<int32_t>{1});
}

TEST(Analyse, SplitsAStepAsByHand) {
  const SmallPlan s = small_plan();
  Timeline t;
  add_step(t, 1, 0);
  add_step(t, 2, 500);
  Analyser a(s.plan, s.program);
  a.add(t);
  ASSERT_EQ(a.steps().size(), 2u);
  for (const StepSplit& x : a.steps()) {
    EXPECT_NEAR(x.step_s, 110 * kUs, 1e-12);
    EXPECT_NEAR(x.compute_s, 58 * kUs, 1e-12);
    EXPECT_NEAR(x.comm_s, 45 * kUs, 1e-12);
    EXPECT_NEAR(x.data_s, 0, 1e-12);
    EXPECT_NEAR(x.wait_s, 25 * kUs, 1e-12);
    EXPECT_NEAR(x.exposed_comm_s, 27 * kUs, 1e-12);
    EXPECT_NEAR(x.exposed_by_lane_s[static_cast<int>(plan::Lane::dp)], 27 * kUs, 1e-12);
    EXPECT_NEAR(x.exposed_by_lane_s[static_cast<int>(plan::Lane::tp)], 0, 1e-12);
    EXPECT_NEAR(x.unattributed_s, 27 * kUs, 1e-12);
    EXPECT_NEAR(x.idle_s, 25 * kUs, 1e-12);
    EXPECT_NEAR(x.coverage(), 83.0 / 110, 1e-9);
    EXPECT_NEAR(x.overlap(), 18.0 / 45, 1e-9);
    EXPECT_EQ(x.too_early, 0);
  }
}

TEST(Analyse, AGapThatNothingIsWaitedForInIsUnattributed) {
  const SmallPlan s = small_plan();
  Timeline t;
  add_step(t, 1, 0);
  t.spans[1].begin_ns = 40'000;
  t.spans[1].end_ns = 41'000;  // the reduction is over early: 60-90 on the compute lane is nobody's
  Analyser a(s.plan, s.program);
  a.add(t);
  EXPECT_NEAR(a.steps()[0].wait_s, 0, 1e-12);
  EXPECT_NEAR(a.steps()[0].unattributed_s, (110 - 58) * kUs, 1e-12);
}

TEST(Analyse, TheEndOfAStepWaitsForTheOtherLanes) {
  const SmallPlan s = small_plan();
  Timeline t;
  add_step(t, 1, 0);
  t.spans.erase(t.spans.begin() + 3);  // no update: no op on the compute lane needs the reduction of 40-85
  Analyser a(s.plan, s.program);
  a.add(t);
  EXPECT_NEAR(a.steps()[0].wait_s, 25 * kUs, 1e-12);                  // 60-85
  EXPECT_NEAR(a.steps()[0].unattributed_s, (110 - 73) * kUs, 1e-12);  // 10-40, 42-60 and that wait are known
}

TEST(Analyse, FetchIsDataAndSerialCollectivesAreComm) {
  SmallPlan s = small_plan();
  s.plan.ops[0].kind = plan::OpKind::fetch;
  Timeline t;
  add_step(t, 1, 0);
  t.spans[1].lane = plan::Lane::compute;
  t.spans[1].end_ns = 42'000;  // 40-42, between fetch and b
  Analyser a(s.plan, s.program);
  a.add(t);
  const StepSplit& x = a.steps()[0];
  EXPECT_NEAR(x.data_s, 30 * kUs, 1e-12);
  EXPECT_NEAR(x.comm_s, 2 * kUs, 1e-12);
  EXPECT_NEAR(x.exposed_comm_s, 2 * kUs, 1e-12);
  EXPECT_NEAR(x.compute_s, 28 * kUs, 1e-12);
  EXPECT_NEAR(x.unattributed_s, 50 * kUs, 1e-12);
}

TEST(Analyse, OpThatBeganBeforeItsProducerEndedIsCounted) {
  const SmallPlan s = small_plan();
  Timeline t;
  add_step(t, 1, 0);
  t.spans[1].end_ns = 91'000;
  Analyser a(s.plan, s.program);
  a.add(t);
  EXPECT_EQ(a.steps()[0].too_early, 1);
}

TEST(Analyse, OpTableAddsUpByPathOverCalls) {
  const SmallPlan s = small_plan();
  Analyser a(s.plan, s.program);
  for (int step = 1; step <= 3; ++step) {
    Timeline t;
    add_step(t, step, 200 * step);
    a.add(t);
  }
  const std::vector<OpRow> rows = a.ops();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].path, "a/reduce");
  EXPECT_EQ(rows[0].lane, "dp");
  EXPECT_NEAR(rows[0].wire_bytes, 3 * 16 * 8 * 4, 1e-9);  // 2 (n-1)/n of 512 bytes, n = 2
  EXPECT_EQ(rows[1].path, "a/forward");
  EXPECT_EQ(rows[1].kind, "gemm");
  EXPECT_EQ(rows[1].shape, "NT 16x8x4");
  EXPECT_EQ(rows[1].count, 3);
  EXPECT_NEAR(rows[1].seconds, 90 * kUs, 1e-12);
  EXPECT_NEAR(rows[1].min_s, 30 * kUs, 1e-12);
  EXPECT_NEAR(rows[1].flops, 3 * 2.0 * 16 * 8 * 4, 1e-9);
  EXPECT_NEAR(rows[1].bytes, 3 * 4.0 * (16 * 4 + 8 * 4 + 16 * 8), 1e-9);
  EXPECT_NEAR(rows[1].gflops_per_s(), 1024 / (30 * kUs) * 1e-9, 1e-9);
}

// Against an analyser without intervals: it samples the running spans every microsecond.
TEST(Analyse, AgreesWithCountingMicroseconds) {
  const SmallPlan s = small_plan();
  std::mt19937 rng(std::random_device{}());
  for (int round = 0; round < 200; ++round) {
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); };
    std::vector<int> cut(6);
    for (int& c : cut) c = pick(0, 100);
    std::sort(cut.begin(), cut.end());
    const int reduce_begin = pick(cut[1], 100), reduce_end = pick(reduce_begin, 105);
    Timeline t;
    const auto span = [&](int32_t i, plan::Lane lane, int from, int to) {
      t.spans.push_back({0, 7, i, i, 0, lane, from * 1000, to * 1000});
    };
    span(0, plan::Lane::compute, cut[0], cut[1]);
    span(2, plan::Lane::compute, cut[2], cut[3]);
    span(3, plan::Lane::compute, cut[4], cut[5]);
    span(1, plan::Lane::dp, reduce_begin, reduce_end);
    t.steps.push_back({0, 7, 0, 100'000});
    int compute = 0, comm = 0, exposed = 0, idle = 0, unattributed = 0, wait = 0;
    for (int us = 0; us < 100; ++us) {
      const bool busy =
          (us >= cut[0] && us < cut[1]) || (us >= cut[2] && us < cut[3]) || (us >= cut[4] && us < cut[5]);
      const bool reducing = us >= reduce_begin && us < reduce_end;
      const bool waiting = ((us >= cut[3] && us < cut[4]) || us >= cut[5]) && us < reduce_end;
      compute += busy;
      comm += reducing;
      exposed += reducing && !busy;
      idle += !reducing && !busy;
      wait += waiting;
      unattributed += !busy && !waiting;
    }
    Analyser a(s.plan, s.program);
    a.add(t);
    const StepSplit& x = a.steps()[0];
    EXPECT_NEAR(x.compute_s, compute * kUs, 1e-12);
    EXPECT_NEAR(x.comm_s, comm * kUs, 1e-12);
    EXPECT_NEAR(x.exposed_comm_s, exposed * kUs, 1e-12);
    EXPECT_NEAR(x.idle_s, idle * kUs, 1e-12);
    EXPECT_NEAR(x.wait_s, wait * kUs, 1e-12);
    EXPECT_NEAR(x.unattributed_s, unattributed * kUs, 1e-12);
  }
}

TEST(Analyse, MedianLeavesOutTheWarmUp) {
  std::vector<StepSplit> steps;
  for (double s : {100.0, 90.0, 1.0, 3.0, 2.0}) steps.push_back({.step_s = s});
  EXPECT_DOUBLE_EQ(median(steps).step_s, 2);
  EXPECT_DOUBLE_EQ(median({steps[0], steps[1]}).step_s, 95);  // no other steps
}

}  // namespace
}  // namespace isobar::trace
