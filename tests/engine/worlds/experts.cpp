// Mixtures of experts under every axis train like one rank: experts' hidden widths are cut, routers have
// partial gradients, a sample's shares are those of all ranks that hold its tokens.
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

void experts_like_one_rank(const Words& layout) {
  for (const TestNet& net : {kMixtral, kDeepSeek}) expect_like_one_rank(layout, net);
}

TEST(ExpertsTraining, OneRankLearns) {
  for (const TestNet& net : {kMixtral, kDeepSeek}) {
    EXPECT_NEAR(one_rank(net).losses[0], std::log(300), 0.1);
    expect_learns(net, 0.99);
  }
}

TEST(ExpertsTraining, InMicroBatchesAndWithRecomputation) {
  experts_like_one_rank({"policy.micro_batch=3"});
  experts_like_one_rank({"policy.recompute=selective"});
  experts_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2", "policy.micro_batch=4"});
}

TEST(ExpertsTraining, RecomputationRoutesToTheLastBit) {
  for (const TestNet& net : {kMixtral, kDeepSeek})
    expect_same_bits({"policy.micro_batch=4"}, {"policy.recompute=full", "policy.micro_batch=4"}, net);
}

TEST(ExpertsTraining, InTensorParallel) {
  experts_like_one_rank({"layout.tp=2"});
  experts_like_one_rank({"layout.tp=2", "policy.sequence_parallel=true", "policy.micro_batch=1"});
  experts_like_one_rank({"layout.tp=2", "layout.dp=2", "policy.micro_batch=3", "policy.recompute=full"});
}

TEST(ExpertsTraining, InContextParallel) {
  experts_like_one_rank({"layout.cp=2"});
  experts_like_one_rank({"layout.cp=3", "policy.micro_batch=4", "policy.recompute=full"});
  experts_like_one_rank({"layout.cp=2", "policy.cp_kind=ulysses", "policy.micro_batch=4"});
  experts_like_one_rank({"layout.cp=3", "policy.cp_kind=ring", "policy.micro_batch=4"});
}

TEST(ExpertsTraining, InPipelines) {
  experts_like_one_rank({"layout.pp=2", "policy.micro_batch=2"});
  experts_like_one_rank(
      {"layout.pp=2", "layout.vpp=2", "policy.micro_batch=3", "policy.schedule=interleaved"});
  experts_like_one_rank({"layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  experts_like_one_rank({"layout.pp=2", "layout.tp=2", "policy.micro_batch=2", "policy.schedule=zb-h1",
                         "policy.sequence_parallel=true"});
}

TEST(ExpertsTraining, InShards) {
  for (const char* zero : {"policy.zero=1", "policy.zero=2", "policy.zero=3"}) {
    experts_like_one_rank({"layout.dp=2", zero, "policy.micro_batch=2", "policy.bucket_mb=0.05"});
    experts_like_one_rank({"layout.dp=2", "layout.tp=2", zero, "policy.micro_batch=3"});
    experts_like_one_rank(
        {"layout.dp=2", "layout.tp=2", zero, "policy.sequence_parallel=true", "policy.micro_batch=3"});
  }
}

TEST(ExpertsTraining, InExpertParallel) {
  experts_like_one_rank({"layout.dp=2", "layout.ep=2"});
  experts_like_one_rank({"layout.cp=2", "layout.ep=2", "policy.micro_batch=3", "policy.recompute=full"});
  experts_like_one_rank({"layout.dp=4", "layout.ep=2", "policy.micro_batch=1", "policy.recompute=selective"});
  experts_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.ep=2", "policy.micro_batch=3"});
  experts_like_one_rank({"layout.dp=2", "layout.pp=2", "layout.ep=2", "policy.micro_batch=2",
                         "policy.schedule=zb-h1", "layout.order=pp-dp-tp-cp"});
  expect_like_one_rank({"layout.dp=4", "layout.ep=4", "policy.micro_batch=3"}, kMixtral);
  expect_like_one_rank({"layout.dp=2", "layout.cp=2", "layout.tp=2", "layout.ep=4", "policy.micro_batch=3",
                        "policy.sequence_parallel=true", "policy.recompute=full"},
                       kMixtral);
  expect_like_one_rank({"layout.dp=4", "layout.cp=2", "layout.ep=4", "policy.micro_batch=1"}, kMixtral);
}

TEST(ExpertsTraining, WhatPredictionsAreToldOfRoutersChangesNoBit) {
  for (const TestNet& net : {kMixtral, kDeepSeek})
    expect_same_bits({"layout.dp=2", "layout.ep=2"},
                     {"layout.dp=2", "layout.ep=2", "net.expert_imbalance=1.5"}, net);
}

TEST(ExpertsTraining, InShardsOfDividedExperts) {
  for (const char* zero : {"policy.zero=1", "policy.zero=2", "policy.zero=3"}) {
    experts_like_one_rank({"layout.dp=2", "layout.ep=2", zero, "policy.micro_batch=2"});
    experts_like_one_rank(
        {"layout.dp=4", "layout.ep=2", zero, "policy.micro_batch=3", "policy.bucket_mb=0.05"});
    expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "layout.ep=2", zero,
                          "policy.micro_batch=3", "policy.sequence_parallel=true"},
                         kMixtral);
  }
}

// Wide heads with norms of their own, under what cuts or recomputes them
TEST(ExpertsTraining, WithNormsOfHeads) {
  EXPECT_NEAR(one_rank(kQwen).losses[0], std::log(300), 0.1);
  for (const Words& layout : std::initializer_list<Words>{
           {"policy.micro_batch=3", "policy.recompute=full"},
           {"layout.tp=2", "policy.recompute=selective"},
           {"layout.tp=2", "policy.sequence_parallel=true", "layout.dp=2", "policy.zero=3"},
           {"layout.cp=2", "policy.micro_batch=4"},
           {"layout.cp=2", "policy.cp_kind=ulysses"},
           {"layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"},
           {"layout.tp=2", "layout.dp=2", "layout.ep=2", "policy.zero=1", "policy.micro_batch=3"}})
    expect_like_one_rank(layout, kQwen);
}

TEST(ExpertsTraining, WithLatentAttentionAndBiases) {
  for (const TestNet& net : {kDeepSeekV3, kPlainLatents}) {
    EXPECT_NEAR(one_rank(net).losses[0], std::log(300), 0.1);
    for (const Words& layout : std::initializer_list<Words>{
             {"policy.micro_batch=3"},
             {"policy.micro_batch=4", "policy.recompute=full"},
             {"layout.tp=2", "policy.recompute=selective"},
             {"layout.tp=2", "policy.sequence_parallel=true", "layout.dp=2", "policy.zero=2"},
             {"layout.dp=2", "policy.zero=3", "policy.micro_batch=3"},
             {"layout.cp=2", "policy.micro_batch=4"},
             {"layout.cp=2", "policy.cp_kind=ulysses"},
             {"layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"},
             {"layout.pp=2", "layout.tp=2", "policy.micro_batch=3", "policy.sequence_parallel=true"}})
      expect_like_one_rank(layout, net);
  }
  expect_like_one_rank({"layout.tp=2", "layout.dp=2", "layout.ep=2", "policy.zero=1", "policy.micro_batch=3"},
                       kDeepSeekV3);
  expect_like_one_rank({"layout.dp=2", "layout.cp=2", "layout.ep=4", "policy.micro_batch=3"}, kDeepSeekV3);
}

// An expert takes the first tokens of a sample over all its ranks.
TEST(ExpertsTraining, WithACapacity) {
  EXPECT_NE(
      one_rank(kCapacity).losses,
      one_rank(TestNet{kCapacity.config, kCapacity.set + Words{"net.expert_capacity_factor=0"}}).losses);
  for (const Words& layout : std::initializer_list<Words>{
           {"policy.micro_batch=3", "policy.recompute=full"},
           {"layout.tp=2", "policy.sequence_parallel=true", "policy.recompute=selective"},
           {"layout.cp=2", "policy.micro_batch=4"},
           {"layout.cp=3", "policy.micro_batch=2", "policy.recompute=full"},
           {"layout.dp=2", "layout.ep=2", "policy.micro_batch=3"},
           {"layout.cp=2", "layout.ep=2", "policy.micro_batch=2"},
           {"layout.dp=2", "layout.cp=2", "layout.ep=4", "policy.zero=2", "policy.micro_batch=3"},
           {"layout.pp=2", "layout.tp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"}})
    expect_like_one_rank(layout, kCapacity);
}

TEST(ExpertsTraining, InAllAxesAtOnce) {
  experts_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.sequence_parallel=true",
                         "policy.micro_batch=3", "policy.recompute=full"});
}

}  // namespace
}  // namespace isobar::engine
