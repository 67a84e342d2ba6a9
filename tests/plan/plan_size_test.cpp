// Memory of planning is estimated beforehand and bounded.
#include "model/nets/layout/plan_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/plan/link.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

const std::vector<std::string> kSmall = {"net.embed_dim=64", "net.num_heads=8", "net.img_height=64",
                                         "net.img_width=128", "train.global_batch=32"};

RunSpec small(std::vector<std::string> more) {
  more.insert(more.begin(), kSmall.begin(), kSmall.end());
  return spec_of("vit-tiny", more);
}

double cpu_seconds() {  // independent of other load
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string refusal(const RunSpec& spec) {
  try {
    nets::build_plan(spec, 0, no_workspace);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(PlanSize, TheCountFromTheSpecificationHoldsWhatIsBuiltAndIsNotFarAboveIt) {
  const std::vector<std::vector<std::string>> layouts = {
      {"net.depth=24"},
      {"net.depth=24", "policy.micro_batch=1"},
      {"net.depth=24", "policy.micro_batch=1", "policy.recompute=full", "policy.amp=fp16"},
      {"net.depth=24", "policy.micro_batch=1", "layout.tp=4", "policy.sequence_parallel=true",
       "policy.amp=bf16"},
      {"net.depth=24", "policy.micro_batch=2", "layout.cp=4", "policy.cp_kind=ring", "policy.recompute=full"},
      {"net.depth=24", "policy.micro_batch=2", "layout.cp=32", "policy.cp_kind=ring"},
      {"net.depth=24", "policy.micro_batch=2", "layout.cp=8", "policy.cp_kind=ulysses"},
      {"net.depth=24", "policy.micro_batch=2", "layout.dp=4", "policy.zero=3", "policy.amp=bf16"},
      {"net.depth=24", "policy.micro_batch=2", "layout.dp=4", "policy.zero=2",
       "policy.main_grads_dtype=bf16"},
      {"net.depth=24", "policy.micro_batch=1", "layout.pp=4", "policy.schedule=zb-h1"},
      {"net.depth=24", "policy.micro_batch=1", "layout.pp=4", "layout.vpp=6", "policy.schedule=interleaved"},
      {"net.depth=24", "policy.offload_optimizer=true", "policy.bucket_mb=0.001"}};
  for (const auto& words : layouts) {
    const RunSpec spec = small(words);
    const double counted = nets::plan_bytes(spec);
    double most = 0;
    for (const int64_t rank : {int64_t{0}, spec.layout.world() - 1})
      most = std::max(most, nets::plan_bytes(nets::build_plan(spec, static_cast<int>(rank), odd_workspace)));
    EXPECT_GT(counted, most) << words.back();
    EXPECT_LT(counted, 16 * most) << words.back();
  }
  for (const char* kind : {"policy.cp_kind=ring", "policy.cp_kind=allgather"})
    for (const char* cp : {"layout.cp=4", "layout.cp=32"}) {
      const RunSpec spec = spec_of("llama-tiny", {"net.depth=24", "policy.micro_batch=2", kind, cp});
      const double counted = nets::plan_bytes(spec),
                   built = nets::plan_bytes(nets::build_plan(spec, 0, odd_workspace));
      EXPECT_GT(counted, built) << kind << " " << cp;
      EXPECT_LT(counted, 16 * built) << kind << " " << cp;
    }
  for (const char* model : {"gpt3-175b", "llama3-70b"}) {
    const RunSpec spec =
        spec_of(model, {"layout.dp=1", "layout.tp=1", "layout.pp=1", "layout.vpp=1", "layout.cp=1",
                        "policy.schedule=1f1b", "policy.micro_batch=1", "train.global_batch=8"});
    const double counted = nets::plan_bytes(spec),
                 built = nets::plan_bytes(nets::build_plan(spec, 0, odd_workspace));
    EXPECT_GT(counted, built) << model;
    EXPECT_LT(counted, 16 * built) << model;
  }
}

TEST(PlanSize, WhatIsTooLargeIsRefusedAtOnceWithWhatItTakesTheLimitAndTheMend) {
  struct Case {
    std::vector<std::string> words;
    std::string key;
  };
  for (const Case& c : std::vector<Case>{
           {{"net.depth=4000", "policy.micro_batch=1", "layout.cp=32", "policy.cp_kind=ring"}, "layout.cp"},
           {{"net.img_height=65536", "net.img_width=65536", "layout.cp=65536", "policy.cp_kind=ring"},
            "layout.cp"}}) {
    const RunSpec spec = small(c.words);
    const double begin = cpu_seconds();
    const std::string said = refusal(spec);
    const double seconds = cpu_seconds() - begin;
    EXPECT_NE(said.find("'" + c.key + "'"), std::string::npos) << c.words[0] << ": " << said;
    EXPECT_NE(said.find(" GB to plan, above 4.29 GB -> "), std::string::npos) << said;
    EXPECT_LT(seconds, 20);
  }
}

TEST(PlanSize, TooManyEqualPartsOrMicroBatchesAreRefusedAtOnce) {
  const double begin = cpu_seconds();
  for (const char* depth : {"4097", "100000", "131072"})
    EXPECT_NE(refusal(small({std::string("net.depth=") + depth}))
                  .find(std::string("'net.depth': makes ") + depth + " blocks, above 4096 -> give fewer"),
              std::string::npos)
        << refusal(small({std::string("net.depth=") + depth}));
  EXPECT_NE(refusal(spec_of("regional-gnn-tiny", {"net.num_gnn_layers=5000"})).find("'net.num_gnn_layers'"),
            std::string::npos);
  EXPECT_NE(refusal(spec_of("aurora-tiny", {"net.encoder_depths=[2, 5000, 2]"})).find("'net.encoder_depths'"),
            std::string::npos);
  const std::string said = refusal(small({"train.global_batch=65537", "policy.micro_batch=1"}));
  EXPECT_NE(said.find("'policy.micro_batch': makes 65537 micro-batches a step, above 65536 -> "),
            std::string::npos)
      << said;
  EXPECT_LT(cpu_seconds() - begin, 2);
  EXPECT_EQ(refusal(small({"net.depth=4096", "policy.micro_batch=1", "train.global_batch=2"})), "");
}

TEST(PlanSize, AStepGrowsWithMicroBatchesAndItsPlanDoesNot) {
  const auto bytes = [](const char* batch) {
    return nets::plan_bytes(nets::build_plan(
        small({std::string("train.global_batch=") + batch, "policy.micro_batch=1"}), 0, no_workspace));
  };
  // From three micro-batches on there are three variants of backward, and one invocation for each pass.
  EXPECT_EQ(bytes("65536") - bytes("4"), 2 * (65536 - 4) * sizeof(Invocation));
  const RunSpec spec = small({"net.depth=64", "train.global_batch=65536", "policy.micro_batch=1"});
  const double begin = cpu_seconds();
  const Plan plan = nets::build_plan(spec, 0, no_workspace);
  EXPECT_LT(cpu_seconds() - begin, 5);
  try {
    nets::link_step(spec, plan);
    ADD_FAILURE() << "was linked";
  } catch (const ConfigError& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("'policy.micro_batch'"), std::string::npos) << said;
    EXPECT_NE(said.find(" GB to plan, above 4.29 GB -> "), std::string::npos) << said;
  }
}

TEST(PlanSize, ADeepNetIsPlacedInTimeInProportion) {
  const auto seconds = [](const char* depth) {
    const double begin = cpu_seconds();
    nets::build_plan(small({std::string("net.depth=") + depth, "policy.micro_batch=1"}), 0, no_workspace);
    return cpu_seconds() - begin;
  };
  seconds("100");
  const double once = seconds("500"), four = seconds("2000");
  EXPECT_LT(four, 10 * once);  // quadratic placement would take 16 times or more
}

TEST(PlanSize, AWorldTooLargeForMemoryIsCheckedByAPartOfIt) {
  const RunSpec all = small({"layout.dp=8", "layout.tp=2"});
  EXPECT_EQ(nets::world_to_check(all, no_workspace).layout.world(), 16);
  const RunSpec many = small({"layout.dp=65536", "layout.tp=2", "train.global_batch=131072", "policy.zero=2",
                              "policy.micro_batch=1"});
  const RunSpec part = nets::world_to_check(many, no_workspace);
  EXPECT_GE(part.layout.dp, 2);
  EXPECT_LT(part.layout.dp, 65536);
  EXPECT_EQ(part.layout.tp, 2);
  EXPECT_EQ(part.micro_batches(), many.micro_batches());
  EXPECT_EQ(part.micro_batch(), 1);
  EXPECT_NO_THROW(nets::check_world(many, no_workspace));
  // Interleaving needs a multiple of the number of stages.
  const RunSpec deep = small({"net.depth=8", "layout.pp=4", "layout.vpp=2", "policy.schedule=interleaved",
                              "layout.dp=256", "train.global_batch=65536", "policy.micro_batch=1"});
  const RunSpec few = nets::world_to_check(deep, no_workspace);
  EXPECT_EQ(few.micro_batches() % 4, 0);
  EXPECT_LT(few.micro_batches(), 256);
  EXPECT_NO_THROW(nets::check_world(deep, no_workspace));
}

// A plan's size depends on neither replicas nor micro-batches; check_world looks at a few ranks.
TEST(PlanSize, ManyReplicasAndManyMicroBatchesArePlannedAndCheckedInSeconds) {
  const auto llama = [](const char* dp) {
    return spec_of("llama3-8b",
                   {std::string("layout.dp=") + dp, "train.global_batch=65536", "policy.micro_batch=1"});
  };
  for (const char* dp : {"1", "65536"}) {
    SCOPED_TRACE(dp);
    const RunSpec spec = llama(dp);
    const double begin = cpu_seconds();
    const Plan plan = nets::build_plan(spec, static_cast<int>(spec.layout.world()) - 1, no_workspace);
    EXPECT_LT(cpu_seconds() - begin, 2);
    EXPECT_LT(nets::plan_bytes(plan), 500e6);
  }
  const double begin = cpu_seconds();
  EXPECT_NO_THROW(nets::check_world(llama("65536"), no_workspace));
  EXPECT_LT(cpu_seconds() - begin, 10);
}

TEST(PlanSize, FewMicroBatchesTakeTheMemoryOfMany) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"layout.pp=4", "policy.schedule=1f1b"},
        {"layout.pp=4", "policy.schedule=zb-h1"},
        {"layout.pp=4", "layout.vpp=2", "policy.schedule=interleaved"}}) {
    std::vector<std::string> all = {"net.depth=8", "train.global_batch=128", "policy.micro_batch=1"};
    all.insert(all.end(), words.begin(), words.end());
    const RunSpec many = small(all), few = nets::with_few_micro_batches(many);
    EXPECT_LT(few.micro_batches(), many.micro_batches());
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(nets::build_plan(few, rank, no_workspace).memory.arena,
                nets::build_plan(many, rank, no_workspace).memory.arena)
          << words.back() << " rank " << rank;
  }
}

}  // namespace
}  // namespace isobar::plan
