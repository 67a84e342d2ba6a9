// Dependencies: every pair of ops on different lanes that touch the same bytes, one of them writing, is
// ordered by waits and lane order. Found by brute force over all pairs, with addresses computed
// independently.
#include "model/plan/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

struct Range {
  int64_t begin, end;
  bool write;
};

std::vector<Range> ranges_of(const Plan& plan, const Instr& instr) {
  std::vector<Range> out;
  const Op& op = plan.ops[instr.op];
  for (const bool write : {false, true})
    for (const View& v : write ? op.writes : op.reads) {
      if (v.buffer < 0) continue;
      const Buffer& b = plan.buffers[v.buffer];
      const int64_t width = b.dtype == DType::bf16 || b.dtype == DType::f16 ? 2 : 4;
      const int64_t begin =
          b.offset + (b.kind == BufferKind::saved ? instr.slot * b.slot_stride : 0) + v.offset * width;
      out.push_back({begin, begin + v.count * width, write});
    }
  return out;
}

/// Unordered conflicting pairs on different lanes; `pairs` counts all conflicting ones.
int unordered(const Plan& plan, const Program& program, int& pairs) {
  const auto& in = program.instrs;
  // clock[i][l]: the last instr of lane l that is certainly finished when i starts
  std::vector<std::array<int, kLanes>> clock(in.size());
  std::array<int, kLanes> last;
  last.fill(-1);
  std::vector<std::vector<Range>> ranges;
  int bad = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const int lane = static_cast<int>(in[i].lane);
    clock[i].fill(-1);
    const auto after = [&](int j) {
      for (int l = 0; l < kLanes; ++l) clock[i][l] = std::max(clock[i][l], clock[j][l]);
      int& own = clock[i][static_cast<int>(in[j].lane)];
      own = std::max(own, j);
    };
    if (last[lane] >= 0) after(last[lane]);
    for (const int w : in[i].waits) {
      EXPECT_GE(w, 0);
      EXPECT_LT(w, static_cast<int>(i)) << "a wait for the future";
      EXPECT_NE(in[w].lane, in[i].lane) << "a wait for the own lane";
      after(w);
    }
    last[lane] = static_cast<int>(i);
    ranges.push_back(ranges_of(plan, in[i]));
    for (size_t j = 0; j < i; ++j) {
      if (in[j].lane == in[i].lane) continue;
      const bool conflict = std::any_of(ranges[i].begin(), ranges[i].end(), [&](const Range& a) {
        return std::any_of(ranges[j].begin(), ranges[j].end(), [&](const Range& b) {
          return a.begin < b.end && b.begin < a.end && (a.write || b.write);
        });
      });
      if (!conflict) continue;
      ++pairs;
      bad += clock[i][static_cast<int>(in[j].lane)] < static_cast<int>(j);
    }
  }
  return bad;
}

TEST(Link, OrdersEveryConflictOfTheTrainingStep) {
  for (const auto& variant : std::vector<std::vector<std::string>>{
           {"policy.bucket_mb=0.01"},
           {"policy.bucket_mb=0.1", "policy.micro_batch=1"},
           {"policy.bucket_mb=0.01", "policy.micro_batch=2", "policy.amp=bf16"},
           {"policy.bucket_mb=0.01", "policy.overlap=false"},
           {"policy.bucket_mb=100", "policy.micro_batch=2", "policy.schedule=gpipe"}}) {
    SCOPED_TRACE(testing::PrintToString(variant));
    auto overrides = variant;
    overrides.push_back("layout.dp=2");
    for (int rank = 0; rank < 2; ++rank) {
      const Plan plan = plan_of("vit-tiny", overrides, rank);
      for (const auto* list : {&plan.init, &plan.train, &plan.eval}) {
        Program program = link(plan, *list);
        int pairs = 0;
        EXPECT_EQ(unordered(plan, program, pairs), 0);
        if (list != &plan.train) continue;
        EXPECT_GT(pairs, 0);
        for (Instr& i : program.instrs) i.waits.clear();
        int again = 0;
        EXPECT_GT(unordered(plan, program, again), 0) << "the search would not see a missing wait";
      }
    }
  }
}

TEST(Link, OrdersEveryConflictOfRandomPrograms) {
  const uint32_t seed = std::random_device{}();
  int pairs = 0;
  for (uint32_t i = 0; i < 300; ++i) {
    SCOPED_TRACE("random plan " + std::to_string(seed + i));
    const Plan plan = random_plan(seed + i);
    const Program program = link(plan, plan.train);
    ASSERT_EQ(unordered(plan, program, pairs), 0);
    for (const Instr& instr : program.instrs) {  // at most one a lane
      std::array<int, kLanes> per_lane{};
      for (const int w : instr.waits) ASSERT_EQ(++per_lane[static_cast<int>(program.instrs[w].lane)], 1);
    }
  }
  EXPECT_GT(pairs, 10000);
}

TEST(Link, NoWaitCanBeLeftOut) {  // each orders a pair that nothing else orders
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const Plan plan = random_plan(seed);
    Program program = link(plan, plan.train);
    int superfluous = 0, waits = 0;
    for (Instr& instr : program.instrs)
      for (size_t w = 0; w < instr.waits.size(); ++w) {
        const auto kept = instr.waits;
        instr.waits.erase(instr.waits.begin() + static_cast<int64_t>(w));
        int pairs = 0;
        superfluous += unordered(plan, program, pairs) == 0;
        ++waits;
        instr.waits = kept;
      }
    EXPECT_GT(waits, 0) << seed;
    EXPECT_EQ(superfluous, 0) << seed;
  }
}

TEST(Link, KeepsListOrderAndSerialKeepsOneLane) {
  const Plan plan = plan_of("vit-tiny", {"layout.dp=2", "policy.micro_batch=1"});
  const Program program = link(plan, plan.train), serial = link(plan, plan.train, true);
  std::vector<int32_t> expected;
  for (const Invocation& i : plan.train)
    for (int o = 0; o < plan.routines[i.routine].count; ++o)
      expected.push_back(plan.routines[i.routine].first + o);
  ASSERT_EQ(program.instrs.size(), expected.size());
  ASSERT_EQ(serial.instrs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(program.instrs[i].op, expected[i]);
    EXPECT_EQ(program.instrs[i].lane, plan.ops[expected[i]].lane);
    EXPECT_EQ(serial.instrs[i].op, expected[i]);
    EXPECT_EQ(serial.instrs[i].lane, Lane::compute);
    EXPECT_TRUE(serial.instrs[i].waits.empty());
  }
}

// ---- check(): deadlocks and mismatched sums ----

class Check : public testing::Test {
 protected:
  Check() {
    for (int r = 0; r < 2; ++r)
      plans.push_back(plan_of("vit-tiny", {"layout.dp=2", "policy.bucket_mb=0.05"}, r));
  }
  std::vector<Op*> collectives(Plan& plan) {
    std::vector<Op*> out;
    for (Op& op : plan.ops)
      if (op.path.starts_with("grads/")) out.push_back(&op);
    return out;
  }
  std::vector<Plan> plans;
};

TEST_F(Check, AcceptsWhatTheBuilderMakes) {
  EXPECT_NO_THROW(check(plans));
  ASSERT_GE(collectives(plans[0]).size(), 3u);
}
TEST_F(Check, RefusesAnotherOrder) {
  auto c = collectives(plans[1]);
  std::swap(*c.front(), *c.back());
  ASSERT_NE(c.front()->reads[0].count, c.back()->reads[0].count);
  EXPECT_THROW(check(plans), std::logic_error);
}
TEST_F(Check, RefusesAnotherSize) {
  Op& op = *collectives(plans[1])[1];
  op.reads[0].count -= 16;
  op.writes[0].count -= 16;
  EXPECT_THROW(check(plans), std::logic_error);
}
TEST_F(Check, RefusesAMissingCall) {
  Op& op = *collectives(plans[0])[1];
  op.kind = OpKind::zero;
  EXPECT_THROW(check(plans), std::logic_error);
}
TEST_F(Check, RefusesAnotherKind) {
  collectives(plans[0])[1]->kind = OpKind::broadcast;
  EXPECT_THROW(check(plans), std::logic_error);
}
TEST_F(Check, RefusesARankThatStaysAway) {
  plans.pop_back();
  EXPECT_THROW(check(plans), std::logic_error);
}
TEST_F(Check, RefusesAViewBeyondItsBuffer) {
  for (Op& op : plans[0].ops)
    if (op.kind == OpKind::activation) {
      op.writes[0].count += 1;
      break;
    }
  EXPECT_THROW(check(plans), std::logic_error);
}

}  // namespace
}  // namespace isobar::plan
