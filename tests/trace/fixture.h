// A plan of two gemms, an all-reduce of the first one's output on the dp lane, and an optimizer op that needs
// the reduced values: small enough for answers by hand.
#pragma once
#include "model/plan/builder.h"
#include "model/plan/link.h"
#include "model/trace/span.h"

namespace isobar::trace {

struct SmallPlan {
  plan::Plan plan;
  plan::Program program;  // 0 a (compute), 1 reduce (dp), 2 b (compute), 3 update (compute, waits for 1)
};

inline SmallPlan small_plan(int rank = 0, const std::string& name_of_b = "b/forward") {
  plan::Builder b(rank, 2, [](const plan::Op&) { return int64_t{0}; });
  const plan::View w = b.persistent("w", plan::BufferKind::params, DType::f32, 32);
  const plan::View x = b.io("x", DType::f32, 16 * 4);
  const plan::View y = b.io("y", DType::f32, 16 * 8);
  const plan::View z = b.io("z", DType::f32, 16 * 8);
  const int group = b.group("dp", {0, 1});
  const int routine = b.begin("all", plan::Pass::forward);
  plan::GemmAttrs gemm{.m = 16, .n = 8, .k = 4, .trans_b = true};
  b.emit<plan::OpKind::gemm>("a/forward", gemm, {x, w, plan::View{}}, {y});
  b.emit<plan::OpKind::all_reduce>("a/reduce", {.group = group}, {y}, {y}, plan::Lane::dp);
  b.emit<plan::OpKind::gemm>(name_of_b, gemm, {x, w, plan::View{}}, {z});
  b.emit<plan::OpKind::activation>("update", {.rows = 16, .cols = 8}, {y}, {z});
  b.end();
  b.plan.train = {{routine, 0, 0}};
  SmallPlan s{b.plan, {}};
  plan::place(s.plan);
  s.program = plan::link(s.plan, s.plan.train);
  return s;
}

/// One step of it, times in microseconds from `at`:
///   compute  a 10-40, b 42-60, update 90-100;  dp  reduce 40-85;  step 0-110
/// Covered: 10-40, 42-60, 90-100 busy = 58; waiting for the reduction 60-85 = 25; unattributed 27.
/// Communication 45, under compute 42-60 = 18, so exposed 27. Idle: 0-10, 85-90, 100-110 = 25.
inline void add_step(Timeline& t, int32_t step, int64_t at_us, int32_t rank = 0) {
  const auto span = [&](int32_t instr, plan::Lane lane, int64_t from, int64_t to) {
    t.spans.push_back({rank, step, instr, instr, 0, lane, (at_us + from) * 1000, (at_us + to) * 1000});
  };
  span(0, plan::Lane::compute, 10, 40);
  span(1, plan::Lane::dp, 40, 85);
  span(2, plan::Lane::compute, 42, 60);
  span(3, plan::Lane::compute, 90, 100);
  t.steps.push_back({rank, step, at_us * 1000, (at_us + 110) * 1000});
}

}  // namespace isobar::trace
