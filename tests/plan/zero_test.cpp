// ZeRO in the plan: memory of each stage to the byte, and its traffic.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

using Words = std::vector<std::string>;

int64_t bytes_of(const Plan& plan, BufferKind kind) {
  return plan.memory.by_kind[static_cast<int>(kind)];
}

struct Sizes {
  double matrix = 0, vector = 0;  // elements: read by matrix products, read in f32
  double embed_bytes = 0;         // of them, gathered in bf16
};
Sizes sizes_of(const Plan& plan) {
  Sizes s;
  for (const Tensor& t : plan.tensors) {
    double n = 1;
    for (const int64_t extent : t.shape) n *= static_cast<double>(extent);
    const bool matrix = t.name.ends_with(".weight") && t.shape.size() > 1;
    (matrix ? s.matrix : s.vector) += n;
    if (t.name.starts_with("patch_embed") || t.name == "pos_embed") s.embed_bytes += (matrix ? 2 : 4) * n;
  }
  return s;
}

/// `amp`: none, bf16, or bf16 with gradients in bf16 ("bf16+").
RunSpec spec_with(int zero, int dp, const std::string& amp, const Words& more = {}) {
  Words words = {"policy.zero=" + std::to_string(zero),
                 "layout.dp=" + std::to_string(dp),
                 "policy.amp=" + amp.substr(0, 4),
                 std::string("policy.main_grads_dtype=") + (amp == "bf16+" ? "bf16" : "fp32"),
                 "train.global_batch=12",
                 "policy.micro_batch=1",
                 "net.embed_dim=64"};
  words.insert(words.end(), more.begin(), more.end());
  return spec_of("vit-tiny", words);
}

// Rajbhandari 2020, figure 1, with gradients in f32, and in 16 bits as in the paper: bytes a parameter.
TEST(Zero, KeepsWhatItsStageSays) {
  for (const double n : {2.0, 3.0, 4.0}) {
    const auto expect = [&](int zero, const std::string& amp, double matrix, double vector) {
      SCOPED_TRACE("stage " + std::to_string(zero) + " " + amp + " over " + std::to_string(n));
      const Plan plan = nets::build_plan(spec_with(zero, static_cast<int>(n), amp), 1, no_workspace);
      const Sizes s = sizes_of(plan);
      const double bytes = matrix * s.matrix + vector * s.vector;
      double kept = 0;
      for (const BufferKind k :
           {BufferKind::params, BufferKind::params16, BufferKind::grads, BufferKind::adam})
        kept += static_cast<double>(bytes_of(plan, k));
      // Shares are padded to 64 bytes in every unit: at most 16 elements a rank and unit, 16 bytes each.
      EXPECT_GE(kept, bytes);
      EXPECT_LE(kept, bytes + 16 * 18 * n * 2 * static_cast<double>(plan.tensors.size()));
      EXPECT_LE(kept, 1.1 * bytes);
    };
    expect(0, "none", 16, 16);
    expect(1, "none", 8 + 8 / n, 8 + 8 / n);
    expect(2, "none", 4 + 12 / n, 4 + 12 / n);
    expect(3, "none", 16 / n, 16 / n);
    expect(0, "bf16", 18, 18);
    expect(1, "bf16", 6 + 12 / n, 8 + 8 / n);
    expect(2, "bf16", 2 + 16 / n, 4 + 12 / n);
    expect(3, "bf16", 18 / n, 16 / n);
    expect(0, "bf16+", 16, 16);
    expect(1, "bf16+", 4 + 12 / n, 6 + 8 / n);
    expect(2, "bf16+", 2 + 14 / n, 4 + 10 / n);
    expect(3, "bf16+", 16 / n, 14 / n);
  }
}

double wire_of(const Plan& plan, OpKind kind) {
  double bytes = 0;
  for (const Invocation& i : plan.train) {
    const Routine& r = plan.routines[i.routine];
    for (int o = r.first; o < r.first + r.count; ++o)
      if (plan.ops[o].kind == kind) bytes += work(plan.ops[o], plan).wire_bytes;
  }
  return bytes;
}

// Stage 3 gathers before forward and before backward; the embedding's gradients need none of its parameters.
TEST(Zero, SendsWhatItsStageSays) {
  const double n = 4, share = (n - 1) / n;
  for (const int micro : {1, 3}) {
    const Words more = {"policy.micro_batch=" + std::to_string(micro)};
    const double m = 12 / n / micro;  // micro-batches
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE("stage " + std::to_string(zero) + ", " + std::to_string(m) + " micro-batches");
      const Plan plan = nets::build_plan(spec_with(zero, 4, "bf16", more), 2, no_workspace);
      const Sizes s = sizes_of(plan);
      const double gradients = 4 * share * (s.matrix + s.vector),
                   parameters = share * (2 * s.matrix + 4 * s.vector);
      const double slack = 0.05 * gradients;  // padding, metrics, the norm
      EXPECT_NEAR(wire_of(plan, OpKind::all_reduce), zero == 0 ? 2 * gradients : 0, slack);
      EXPECT_NEAR(wire_of(plan, OpKind::reduce_scatter), zero == 0 ? 0 : gradients * (zero == 1 ? 1 : m),
                  slack * m);
      EXPECT_NEAR(wire_of(plan, OpKind::all_gather),
                  zero == 0   ? 0
                  : zero == 3 ? m * (2 * parameters - share * s.embed_bytes)
                              : parameters,
                  slack * m);
    }
  }
}

// A micro-batch's reductions overlap its own backward: each is awaited only after the next one has started,
// and what is gathered is read.
TEST(Zero, ReductionsAreWaitedForOneUnitLate) {
  for (const int zero : {2, 3}) {
    const Plan plan = nets::build_plan(
        spec_with(zero, 4, "bf16",
                  {"net.depth=6", "policy.bucket_mb=0.1", "layout.tp=2", "layout.order=tp-dp-cp-pp"}),
        1, no_workspace);
    for (const Routine& r : plan.routines) {
      if (r.pass != Pass::backward) continue;
      std::map<std::string, int> waiting;   // by group and type: reductions not yet awaited
      std::map<int32_t, std::string> sent;  // buffer -> whose
      std::set<int32_t> gathered, read;
      int reductions = 0, most = 0;
      for (int o = r.first; o < r.first + r.count; ++o) {
        const Op& op = plan.ops[o];
        for (const View& v : op.reads) {
          read.insert(v.buffer);
          const auto from = sent.find(v.buffer);
          if (from == sent.end() || op.lane != Lane::compute) continue;
          --waiting[from->second];
          sent.erase(from);
        }
        if (op.kind == OpKind::all_gather && op.lane == Lane::dp) gathered.insert(op.writes[0].buffer);
        if (op.kind != OpKind::reduce_scatter) continue;
        ++reductions;
        // Units of matrices and of f32 parameters are reduced independently.
        const std::string section = plan.groups[op.as<TransferAttrs>().group].name;
        sent[op.writes[0].buffer] = section;
        most = std::max(most, ++waiting[section]);
      }
      EXPECT_TRUE(std::includes(read.begin(), read.end(), gathered.begin(), gathered.end()))
          << "stage " << zero;
      EXPECT_GE(reductions, 6);
      EXPECT_GE(most, 2);
      EXPECT_LE(most, 4) << "stage " << zero;
    }
  }
}

// A parameter is gathered while the part before it computes, and freed after its last use.
TEST(Zero, StageThreeHoldsTwoPartsAtATime) {
  const Words deep = {"net.depth=8", "policy.recompute=full"};
  const Plan whole = nets::build_plan(spec_with(2, 4, "none", deep), 0, no_workspace),
             shares = nets::build_plan(spec_with(3, 4, "none", deep), 0, no_workspace);
  const Sizes s = sizes_of(whole);
  const double block = 12.0 * 64 * 64 * 4;  // bytes
  EXPECT_LT(static_cast<double>(bytes_of(shares, BufferKind::scratch) - bytes_of(whole, BufferKind::scratch)),
            3 * block + 4 * s.vector);
  EXPECT_LT(shares.memory.arena, whole.memory.arena);
}

}  // namespace
}  // namespace isobar::plan
