// The ViT's plan against independent closed forms: parameters, FLOPs, memory by category, wire bytes;
// gradient buckets; and plans that are refused.
#include <gtest/gtest.h>

#include <map>

#include "model/base/error.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

int64_t kind_bytes(const Plan& plan, BufferKind k) {
  return plan.memory.by_kind[static_cast<int>(k)];
}

// C p² D + D, N D, depth (12 D² + 13 D), 2 D, D C p²   (mlp_ratio 4)
int64_t parameters(const VitSpec& n) {
  const int64_t D = n.embed_dim, P = n.in_channels * n.patch_size * n.patch_size;
  return P * D + D + n.tokens() * D + n.depth * (12 * D * D + 13 * D) + 2 * D + D * P;
}

// linears 24 N D² and attention 4 N² D a block; patch and head 2 N P D each
double forward_flops(const VitSpec& n) {
  const auto N = static_cast<double>(n.tokens()), D = static_cast<double>(n.embed_dim);
  const auto P = static_cast<double>(n.in_channels * n.patch_size * n.patch_size);
  return static_cast<double>(n.depth) * (24 * N * D * D + 4 * N * N * D) + 4 * N * P * D;
}

TEST(Vit, ParametersAndFlopsAreThoseOfThePublishedNets) {
  struct Case {
    const char* model;
    int64_t parameters;
    double gflops;  // as published, rounded to whole GFLOP
  };
  for (const Case& c : {Case{"vit-384", 23832960, 482}, Case{"vit-1024", 157926400, 2051},
                        Case{"vit-1536", 350135808, 3993}, Case{"vit-1536-p4", 365849088, 30389}}) {
    SCOPED_TRACE(c.model);
    const RunSpec spec = spec_of(c.model);
    const Plan plan = nets::build_plan(spec, 0, no_workspace);
    EXPECT_EQ(plan.parameter_count(), c.parameters);
    EXPECT_EQ(parameters(spec.net.vit()), c.parameters);
    const double flops = totals(plan, spec.micro_batch()).forward_flops;
    EXPECT_EQ(flops, forward_flops(spec.net.vit()));
    EXPECT_NEAR(flops / 1e9, c.gflops, 0.5);
    // params, gradients and two moments in fp32: 16 bytes a parameter; AMP adds 2
    EXPECT_EQ(kind_bytes(plan, BufferKind::params), 4 * c.parameters);
    EXPECT_EQ(kind_bytes(plan, BufferKind::grads), 4 * c.parameters);
    EXPECT_EQ(kind_bytes(plan, BufferKind::adam), 8 * c.parameters);
    EXPECT_EQ(kind_bytes(nets::build_plan(spec_of(c.model, {"train.optimizer=sgd"}), 0, no_workspace),
                         BufferKind::adam),
              4 * c.parameters);
    EXPECT_EQ(kind_bytes(plan, BufferKind::params16), spec.policy.amp == Amp::bf16 ? 2 * c.parameters : 0);
  }
}

TEST(Vit, FlopsDoNotDependOnHowTheBatchIsCut) {
  for (const char* micro : {"1", "2", "4", "8"})
    for (const char* dp : {"1", "2"}) {
      if (std::stoi(micro) * std::stoi(dp) > 8) continue;
      const RunSpec spec =
          spec_of("vit-tiny", {std::string("policy.micro_batch=") + micro, std::string("layout.dp=") + dp});
      const Totals t = totals(nets::build_plan(spec, 0, no_workspace), spec.micro_batch());
      EXPECT_EQ(t.forward_flops, forward_flops(spec.net.vit()));
      // Backward: twice the linears (without the image's gradient), 5/2 of attention.
      const VitSpec& n = spec.net.vit();
      const auto N = static_cast<double>(n.tokens()), D = static_cast<double>(n.embed_dim);
      const double attention = static_cast<double>(n.depth) * 4 * N * N * D;
      const double image = 2 * N * D * static_cast<double>(n.in_channels * n.patch_size * n.patch_size);
      const double sample = 3 * forward_flops(n) + 0.5 * attention - image;
      EXPECT_DOUBLE_EQ(t.step.flops, sample * 8 / static_cast<double>(spec.layout.dp));
    }
}

// Bytes that a rank saves of one micro-batch from forward to backward, with a bytes an activation.
int64_t saved_bytes(const VitSpec& n, int64_t batch, int64_t a) {
  const int64_t N = n.tokens(), D = n.embed_dim, R = batch * N;
  const int64_t P = n.in_channels * n.patch_size * n.patch_size;
  const int64_t pixels = batch * n.in_channels * n.img_height * n.img_width;
  const int64_t norm = 4 * R * D + a * R * D + 2 * 4 * R;                             // x, h, mean and rstd
  const int64_t attention = 3 * a * R * D + a * R * D + 4 * batch * n.num_heads * N;  // qkv, o, lse
  const int64_t mlp = 2 * a * R * 4 * D;                                              // before and after GELU
  const int64_t sums = (4 * batch * (2 + n.out_channels) + 63) / 64 * 64;
  return n.depth * (2 * norm + attention + mlp) + norm + a * R * P /* patches */ + 4 * pixels /* target */ +
         a * R * P /* prediction */ + sums;
}

TEST(Vit, MemoryIsThatOfTheClosedForms) {
  for (const char* amp : {"none", "bf16"})
    for (const int64_t dp : {1, 2})
      for (const int64_t micro : {1, 2, 4})
        for (const char* schedule : {"1f1b", "gpipe"}) {
          const RunSpec spec = spec_of(
              "vit-tiny", {std::string("policy.amp=") + amp, "layout.dp=" + std::to_string(dp),
                           "policy.micro_batch=" + std::to_string(micro),
                           std::string("policy.schedule=") + schedule, "data.workers=3", "data.prefetch=2"});
          const Plan plan = nets::build_plan(spec, 0, no_workspace);
          const VitSpec& n = spec.net.vit();
          const int64_t slots = std::string(schedule) == "gpipe" ? 8 / (dp * micro) : 1;
          EXPECT_EQ(kind_bytes(plan, BufferKind::saved),
                    slots * saved_bytes(n, micro, spec.policy.amp == Amp::bf16 ? 2 : 4));
          EXPECT_EQ(plan.memory.loader, 7 * micro * 2 * n.in_channels * n.img_height * n.img_width * 4);
          EXPECT_EQ(plan.memory.total(), plan.memory.arena + plan.memory.loader);
        }
}

// Full recomputation of L blocks saves the input of every N-th (uniform), or all but the insides of the first
// N (block). It costs those blocks' forward, without the last product of every group.
TEST(Vit, RecomputationKeepsAndCostsWhatItsMethodSays) {
  for (const char* amp : {"none", "bf16"})
    for (const int64_t depth : {1, 4, 5})
      for (const char* method : {"uniform", "block"})
        for (const int64_t N : {1, 2, 3, 9}) {
          const std::string number = std::to_string(N);
          SCOPED_TRACE(std::string(amp) + ", " + method + " " + number + " of " + std::to_string(depth));
          const std::vector<std::string> words = {
              std::string("policy.amp=") + amp, "net.depth=" + std::to_string(depth), "policy.micro_batch=2"};
          std::vector<std::string> full = words;
          full.insert(full.end(), {"policy.recompute=full", std::string("policy.recompute_method=") + method,
                                   "policy.recompute_num_layers=" + number});
          const RunSpec spec = spec_of("vit-tiny", full);
          const Plan none = nets::build_plan(spec_of("vit-tiny", words), 0, no_workspace),
                     plan = nets::build_plan(spec, 0, no_workspace);
          VitSpec n = spec.net.vit();
          const int64_t a = spec.policy.amp == Amp::bf16 ? 2 : 4;
          const int64_t L = depth, R = 2 * n.tokens(), D = n.embed_dim;
          n.depth = 1;
          const int64_t one = saved_bytes(n, 2, a);
          n.depth = 2;
          const int64_t block = saved_bytes(n, 2, a) - one, rest = one - block, input = 4 * R * D;
          const bool uniform = std::string(method) == "uniform";
          const int64_t recomputed = uniform ? L : std::min(N, L);
          const int64_t groups = uniform ? (L + N - 1) / N : recomputed;
          EXPECT_EQ(kind_bytes(none, BufferKind::saved), rest + L * block);
          EXPECT_EQ(kind_bytes(plan, BufferKind::saved), rest + (L - recomputed) * block + groups * input);
          const auto tokens = static_cast<double>(n.tokens()), width = static_cast<double>(D);
          const double forward = 24 * tokens * width * width + 4 * tokens * tokens * width;
          const double last = 8 * tokens * width * width;
          EXPECT_DOUBLE_EQ(
              totals(plan, 2).step.flops - totals(none, 2).step.flops,
              static_cast<double>(spec.train.global_batch) *
                  (static_cast<double>(recomputed) * forward - static_cast<double>(groups) * last));
        }
}

TEST(Vit, GapsBetweenParametersStaySmall) {  // sizes not divisible by 64 bytes
  const RunSpec spec = spec_of("vit-tiny", {"net.embed_dim=36", "net.num_heads=4", "net.in_channels=3",
                                            "net.out_channels=3", "net.patch_size=2"});
  const Plan plan = nets::build_plan(spec, 0, no_workspace);
  EXPECT_EQ(plan.parameter_count(), parameters(spec.net.vit()));
  const int64_t gaps = plan.params_all.count - plan.parameter_count();
  EXPECT_GT(gaps, 0);
  EXPECT_LT(gaps, 16 * static_cast<int64_t>(plan.params.size()));
  int64_t end = 0;
  for (const Param& p : plan.params) {  // in order, none inside another
    EXPECT_GE(p.offset, end) << p.name;
    end = p.offset + p.count;
  }
  EXPECT_LE(end, plan.params_all.count);
}

/// Reductions of each gradient element in a step; fails if one is written after its reduction.
std::vector<int> reductions(const Plan& plan) {
  std::vector<int> times(plan.grads_all.count, 0);
  for (const Invocation& inv : plan.train) {
    const Routine& r = plan.routines[inv.routine];
    for (int o = r.first; o < r.first + r.count; ++o) {
      const Op& op = plan.ops[o];
      for (const View& v : op.writes) {
        if (v.buffer != plan.grads_all.buffer) continue;
        for (int64_t i = v.offset; i < v.offset + v.count; ++i) {
          if (op.kind == OpKind::all_reduce)
            ++times[i];
          else if (times[i] > 0)
            ADD_FAILURE() << op.path << " writes a gradient that is already reduced";
        }
      }
    }
  }
  return times;
}

TEST(Vit, BucketsReduceEveryGradientOnceWhateverTheirSize) {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 24; ++round) {
    const double mb = std::pow(10.0, std::uniform_real_distribution<>(-4, 1)(random));
    const int64_t dp = 2 + static_cast<int64_t>(random() % 3) * 2;  // 2, 4, 6
    const bool overlap = round % 2 == 0;
    std::vector<std::string> overrides = {
        "policy.bucket_mb=" + std::to_string(mb),
        "layout.dp=" + std::to_string(dp),
        "train.global_batch=12",
        std::string("policy.overlap=") + (overlap ? "true" : "false"),
        "policy.micro_batch=" + std::to_string(1 + random() % (dp == 6 ? 2 : 1)),
        round % 3 ? "policy.amp=bf16" : "policy.amp=none"};
    SCOPED_TRACE(testing::PrintToString(overrides));
    const RunSpec spec = spec_of("vit-tiny", overrides);
    std::vector<Plan> plans;
    plans.reserve(dp);
    for (int r = 0; r < dp; ++r) plans.push_back(nets::build_plan(spec, r, odd_workspace));
    EXPECT_NO_THROW(check(plans));
    const Plan& plan = plans[static_cast<size_t>(random() % dp)];
    for (const int times : reductions(plan)) ASSERT_EQ(times, 1);
    // ring all-reduce: 2 (n-1)/n of the bytes, of gradients and metrics (loss and one RMSE a channel)
    const double n = static_cast<double>(dp);
    const double payload = 4.0 * static_cast<double>(plan.params_all.count + 1 + spec.net.vit().out_channels);
    EXPECT_NEAR(totals(plan, spec.micro_batch()).step.wire_bytes, 2 * (n - 1) / n * payload, 1e-6 * payload);
    bool backward_after_bucket = false, bucket = false;
    for (const Op& op : plan.ops) {
      if (op.path.starts_with("grads/")) bucket = true;
      if (bucket && op.path.ends_with("/backward_weight")) backward_after_bucket = true;
    }
    if (!overlap) {
      EXPECT_FALSE(backward_after_bucket);
    } else if (mb < 0.1) {
      EXPECT_TRUE(backward_after_bucket) << "nothing is left to overlap with";
    }
  }
}

TEST(Vit, OneRankReducesNothing) {
  const Plan plan = plan_of("vit-tiny");
  for (const Op& op : plan.ops) EXPECT_FALSE(is_collective(op.kind)) << op.path;
  EXPECT_TRUE(plan.groups.empty());
}

TEST(Vit, GradientsAreWrittenOnceThenAddedTo) {
  const Plan plan = plan_of("vit-tiny", {"policy.micro_batch=2"});
  std::map<std::string, int> begun;
  for (const Invocation& inv : plan.train) {
    const Routine& r = plan.routines[inv.routine];
    if (r.pass != Pass::backward) continue;
    for (int o = r.first; o < r.first + r.count; ++o) {
      const Op& op = plan.ops[o];
      for (const View& v : op.writes)
        if (v.buffer == plan.grads_all.buffer) {
          EXPECT_EQ(accumulates(op.attrs), inv.micro > 0) << op.path;
          ++begun[op.path + "@" + std::to_string(v.offset)];
        }
    }
  }
  for (const auto& [path, times] : begun) EXPECT_EQ(times, 4) << path;
}

TEST(Vit, PathsNameOneOpEachAndPassesMatch) {
  const Plan plan = plan_of("vit-tiny", {"layout.dp=2"});
  std::map<std::pair<std::string, std::string>, int> seen;  // (routine, path)
  for (const Routine& r : plan.routines)
    for (int o = r.first; o < r.first + r.count; ++o)
      EXPECT_EQ(++seen[std::pair(r.name, plan.ops[o].path)], 1) << plan.ops[o].path;
}

TEST(Vit, WhatCannotBeExecutedIsRefusedWithAMend) {
  for (const char* key : {"layout.tp=3", "layout.cp=33", "layout.pp=3", "layout.vpp=2"}) {
    SCOPED_TRACE(key);
    const std::string name = std::string(key).substr(0, std::string(key).find('='));
    try {
      nets::build_plan(spec_of("vit-tiny", {key}), 0, no_workspace);
      ADD_FAILURE() << "was planned";
    } catch (const ConfigError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("vit-tiny.yaml"), std::string::npos) << text;
      EXPECT_NE(text.find("'" + name + "'"), std::string::npos) << text;
      EXPECT_NE(text.find(" -> "), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace isobar::plan
