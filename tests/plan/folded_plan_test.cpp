// Plans of very deep nets against whole plans.
#include "model/nets/folded_plan.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "model/nets/plan_size.h"
#include "tests/plan/plans.h"

namespace isobar {
namespace {

using Words = std::vector<std::string>;

RunSpec small(const std::string& model, Words more) {
  Words words = {"net.embed_dim=64", "net.num_heads=8"};
  if (model == "vit-tiny") words.insert(words.end(), {"net.img_height=64", "net.img_width=128"});
  words.insert(words.end(), {"layout.dp=1", "layout.tp=1", "layout.cp=1", "layout.pp=1", "layout.vpp=1",
                             "policy.schedule=1f1b", "policy.micro_batch=1", "train.global_batch=16"});
  words.insert(words.end(), more.begin(), more.end());
  return spec_of(model, words);
}

void expect_same(double got, double want, const char* what) {
  EXPECT_NEAR(got, want, 1e-9 * want) << what;
}

// Compares all fields about the whole net with build_plan()'s.
void expect_as_whole(const RunSpec& spec, int rank) {
  const FoldedPlan f = fold_plan(spec, rank, odd_workspace, /*most_whole=*/8);
  EXPECT_GT(f.rounds, 0) << "was planned whole";
  const Plan plan = build_plan(spec, rank, odd_workspace);
  EXPECT_LT(f.plan.ops.size(), plan.ops.size());
  for (int k = 0; k < kBufferKinds; ++k)
    EXPECT_EQ(f.memory.by_kind[k], plan.memory.by_kind[k]) << name_of(static_cast<BufferKind>(k));
  EXPECT_EQ(f.memory.arena, plan.memory.arena);
  EXPECT_EQ(f.memory.host, plan.memory.host);
  EXPECT_EQ(f.memory.loader, plan.memory.loader);
  EXPECT_EQ(f.parameters, plan.parameter_count());
  const Totals want = totals(plan, spec.micro_batch());
  EXPECT_EQ(f.totals.ops, want.ops);
  expect_same(f.totals.step.flops, want.step.flops, "flops");
  expect_same(f.totals.step.vector_flops, want.step.vector_flops, "vector_flops");
  expect_same(f.totals.step.bytes_read, want.step.bytes_read, "bytes_read");
  expect_same(f.totals.step.bytes_written, want.step.bytes_written, "bytes_written");
  expect_same(f.totals.step.wire_bytes, want.step.wire_bytes, "wire_bytes");
  expect_same(f.totals.step.messages, want.step.messages, "messages");
  expect_same(f.totals.forward_flops, want.forward_flops, "forward_flops of the rank");
  expect_same(f.forward_flops, forward_flops_per_sample(spec), "forward_flops of the net");
}

struct Layout {
  const char* model;
  const char* depth;
  Words words;
};

class FoldedPlans : public ::testing::TestWithParam<Layout> {};

TEST_P(FoldedPlans, AreAsThoseOfEveryBlock) {
  const Layout& l = GetParam();
  Words words = l.words;
  words.push_back(std::string("net.depth=") + l.depth);
  const RunSpec spec = small(l.model, words);
  for (const int64_t rank : {int64_t{0}, spec.layout.world() / 2, spec.layout.world() - 1}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    expect_as_whole(spec, static_cast<int>(rank));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FoldedPlans,
    ::testing::Values(
        Layout{"vit-tiny", "61", {}}, Layout{"vit-tiny", "200", {"policy.amp=bf16"}},
        Layout{"vit-tiny", "61", {"policy.amp=fp16", "policy.recompute=selective", "train.grad_clip=1"}},
        Layout{"vit-tiny", "150", {"policy.recompute=full", "policy.recompute_num_layers=3"}},
        Layout{"vit-tiny",
               "150",
               {"policy.recompute=full", "policy.recompute_method=block", "policy.recompute_num_layers=5"}},
        // Buckets of one block, and of several; whole or sharded
        Layout{"vit-tiny", "61", {"layout.dp=4", "policy.bucket_mb=0.001"}},
        Layout{"vit-tiny", "150", {"layout.dp=4", "policy.bucket_mb=0.7", "policy.zero=1"}},
        Layout{"vit-tiny", "61", {"layout.dp=4", "policy.zero=3", "policy.amp=bf16"}},
        Layout{"vit-tiny", "61", {"layout.dp=4", "policy.zero=3", "policy.offload_parameters=true"}},
        Layout{"vit-tiny", "61", {"policy.offload_optimizer=true", "policy.bucket_mb=0.001"}},
        Layout{"vit-tiny", "61", {"layout.tp=4", "policy.sequence_parallel=true", "policy.bucket_mb=0.001"}},
        Layout{"vit-tiny", "61", {"layout.cp=4", "policy.cp_kind=ring", "policy.bucket_mb=0.001"}},
        Layout{"vit-tiny", "203", {"layout.pp=4"}},
        Layout{"vit-tiny", "130", {"layout.pp=2", "policy.schedule=zb-h1"}},
        Layout{"vit-tiny",
               "270",
               {"layout.pp=2", "layout.vpp=3", "policy.schedule=interleaved", "layout.dp=2",
                "policy.bucket_mb=0.001"}},
        Layout{"gpt3-175b", "61", {}}, Layout{"llama3-8b", "61", {"net.num_kv_heads=4", "policy.amp=bf16"}},
        Layout{"gpt3-175b", "200", {"layout.pp=2", "layout.tp=2", "layout.dp=2", "policy.bucket_mb=0.001"}}));

TEST(FoldedPlan, AHundredThousandBlocksTakeTwoSecondsAndFewBytes) {
  for (const Words& words : {Words{}, {"layout.pp=8"}, {"layout.dp=64", "train.global_batch=64"}}) {
    SCOPED_TRACE(words.empty() ? "one rank" : words[0]);
    Words all = words;
    all.push_back("net.depth=100000");
    const RunSpec spec = small("vit-tiny", all);
    const std::clock_t begin = std::clock();
    const FoldedPlan f = fold_plan(spec, static_cast<int>(spec.layout.world()) - 1, no_workspace);
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 2);
    EXPECT_LT(plan_bytes(f.plan), 500e6 / 10);
    EXPECT_GT(f.rounds, 0);
    const auto parameters = [&](const char* depth) {
      return build_plan(small("vit-tiny", {std::string("net.depth=") + depth}), 0, no_workspace)
          .parameter_count();
    };
    EXPECT_EQ(f.parameters, parameters("1") + 99999 * (parameters("2") - parameters("1")));
  }
}

// Scratch does not repeat if gradients of several blocks wait for one another.
TEST(FoldedPlan, WhatDoesNotGrowByTheSameIsPlannedWhole) {
  const RunSpec spec =
      small("vit-tiny", {"net.depth=150", "layout.dp=2", "policy.bucket_mb=0.5", "policy.zero=2"});
  const FoldedPlan f = fold_plan(spec, 1, odd_workspace, 8);
  EXPECT_EQ(f.rounds, 0);
  EXPECT_EQ(to_text(f.plan), to_text(build_plan(spec, 1, odd_workspace)));
}

// Names may distinguish blocks, so the plan is whole.
TEST(FoldedPlan, WhatTrainNamesIsPlannedWhole) {
  const FoldedPlan f =
      fold_plan(small("vit-tiny", {"net.depth=61", "train.freeze=[blocks.7.*]"}), 0, odd_workspace, 8);
  EXPECT_EQ(f.rounds, 0);
  EXPECT_EQ(f.memory.arena, f.plan.memory.arena);
}

TEST(FoldedPlan, ANetOfFewPartsIsPlannedWhole) {
  const RunSpec spec = spec_of("vit-tiny");
  const FoldedPlan f = fold_plan(spec, 0, odd_workspace);
  EXPECT_EQ(f.rounds, 0);
  EXPECT_EQ(to_text(f.plan), to_text(build_plan(spec, 0, odd_workspace)));
}

}  // namespace
}  // namespace isobar
