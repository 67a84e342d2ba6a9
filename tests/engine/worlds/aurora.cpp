// Aurora under every supported layout axis trains like one rank. Skip connections jump over stages, and so
// does the conditioning if a merge or split lies between two blocks.
#include "model/nets/build.h"
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

void aurora_like_one_rank(const Words& layout) {
  expect_like_one_rank(layout, kAurora);
}

TEST(AuroraTraining, LearnsAndRepeatsToTheLastBit) {
  expect_learns(kAurora, 0.97);
  expect_same_bits({}, {}, kAurora);
}

TEST(AuroraTraining, IsTheSameOverReplicasAndMicroBatches) {
  aurora_like_one_rank({"policy.micro_batch=3"});
  aurora_like_one_rank({"layout.dp=2", "policy.micro_batch=2"});
}

TEST(AuroraTraining, IsTheSameOverStages) {
  aurora_like_one_rank({"layout.pp=2", "policy.micro_batch=3"});
  aurora_like_one_rank({"layout.pp=4", "policy.micro_batch=2", "policy.schedule=gpipe"});
  aurora_like_one_rank({"layout.pp=2", "layout.dp=2", "policy.micro_batch=2"});
}

TEST(AuroraTraining, IsTheSameWithItsEndsOnStagesOfTheirOwn) {
  aurora_like_one_rank({"layout.pp=4", "layout.stages=[0,7,7,0]", "policy.micro_batch=2"});
  aurora_like_one_rank(
      {"layout.pp=4", "layout.stages=[0,7,7,0]", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  aurora_like_one_rank({"layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved",
                        "layout.stages=[0,7,7,0]", "policy.micro_batch=3"});
  aurora_like_one_rank({"layout.pp=4", "layout.dp=2", "layout.stages=[0,7,7,0]", "policy.micro_batch=2",
                        "policy.zero=1", "policy.recompute=full"});
  // The ends are not partitioned, so their second tensor-parallel rank must not count them in the norm.
  TestNet clipped = kAurora;
  clipped.set.push_back("train.grad_clip=0.5");
  expect_like_one_rank({"layout.pp=4", "layout.tp=2", "layout.stages=[0,7,7,0]", "policy.micro_batch=2",
                        "policy.sequence_parallel=false"},
                       clipped);
}

TEST(AuroraTraining, IsTheSameOverTensorParallelRanks) {
  aurora_like_one_rank({"layout.tp=2", "policy.sequence_parallel=false", "policy.micro_batch=6"});
  aurora_like_one_rank(
      {"layout.tp=2", "layout.pp=2", "policy.sequence_parallel=false", "policy.micro_batch=3"});
}

TEST(AuroraTraining, SplitsItsBackwardPass) {
  aurora_like_one_rank({"layout.pp=3", "policy.schedule=zb-h1", "policy.micro_batch=2"});
}

TEST(AuroraTraining, RecomputesItsParts) {
  aurora_like_one_rank({"policy.recompute=full", "policy.micro_batch=6"});
  aurora_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=3", "policy.micro_batch=6"});
  aurora_like_one_rank({"policy.recompute=full", "layout.pp=2", "policy.micro_batch=2"});
  aurora_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2", "layout.pp=3",
                        "policy.recompute_method=block", "policy.micro_batch=2"});
  aurora_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=20",
                        "policy.recompute_method=uniform", "policy.micro_batch=6"});
  aurora_like_one_rank({"policy.recompute=selective", "layout.pp=2", "layout.tp=2",
                        "policy.sequence_parallel=false", "policy.micro_batch=3"});
}

// A sum of two addends does not depend on their order, so replicas agree to the last bit.
TEST(AuroraTraining, KeepsItsEndsInFp32) {
  const Words mixed = {"policy.amp=bf16", "net.fp32_ends=true", "layout.dp=2", "policy.micro_batch=6"};
  if (const auto half = trained_here(kAurora, mixed)) {
    EXPECT_NEAR(half->losses[0] / one_rank(kAurora).losses[0], 1, 1e-2);
    EXPECT_NE(half->losses.back(), one_rank(kAurora).losses.back());
  }
  for (const Words& more : {Words{"policy.zero=1"},
                            {"policy.zero=2"},
                            {"policy.zero=3", "policy.bucket_mb=0.02"},
                            {"policy.recompute=full"}})
    expect_same_bits(mixed, mixed + more, kAurora);
}

TEST(AuroraTraining, KeepsItsUnitsInShards) {
  for (const char* zero : {"1", "2", "3"})
    aurora_like_one_rank({"layout.dp=2", "layout.pp=2", std::string("policy.zero=") + zero,
                          "policy.micro_batch=2", "policy.bucket_mb=0.02"});
}

void bands_like_one_rank(const Words& layout) {
  expect_like_one_rank(layout, tall_aurora());
}

TEST(AuroraTraining, IsTheSameOverBandsOfLatitudes) {
  expect_like_one_rank({"layout.cp=2", "policy.micro_batch=3"}, kAurora);
  bands_like_one_rank({"layout.cp=2", "policy.micro_batch=12"});
  bands_like_one_rank({"layout.cp=3", "policy.micro_batch=2"});
  bands_like_one_rank({"layout.cp=4", "policy.micro_batch=6"});
}

TEST(AuroraTraining, IsTheSameWhereAllAxesCut) {
  bands_like_one_rank({"layout.cp=2", "layout.dp=2", "policy.micro_batch=3", "policy.zero=1"});
  bands_like_one_rank({"layout.cp=3", "layout.dp=2", "policy.micro_batch=2", "policy.zero=3",
                       "policy.bucket_mb=0.02", "policy.recompute=full"});
  bands_like_one_rank({"layout.cp=2", "layout.pp=3", "policy.micro_batch=2", "policy.recompute=full",
                       "policy.recompute_num_layers=2"});
  bands_like_one_rank({"layout.cp=2", "layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.zero=2",
                       "policy.bucket_mb=0.02", "layout.order=cp-dp-pp-tp"});
  bands_like_one_rank({"layout.cp=4", "layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  bands_like_one_rank({"layout.cp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=false",
                       "policy.micro_batch=3", "policy.recompute=selective"});
}

}  // namespace
}  // namespace isobar::engine
