// A swin under every axis trains like one rank: windows over bands of latitude, heads over tensor
// parallelism, skip connections over pipeline stages.
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

void swin_like_one_rank(const Words& layout, const Words& more = {}) {
  TestNet net = kSwin;
  net.set = net.set + more;
  expect_like_one_rank(layout, net);
}

TEST(SwinTraining, TrainsUnderAllAxesAtOnceLikeOneRank) {
  swin_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=2"});
  swin_like_one_rank({"layout.dp=2", "layout.cp=3", "policy.micro_batch=1", "policy.zero=2"});
}

// 14, 7 and 4 rows of patches over four ranks: windows span two bands, and a band may have none of its own.
TEST(SwinTraining, CutsItsWindowsIntoBands) {
  swin_like_one_rank({"layout.cp=4", "policy.micro_batch=3"});
  swin_like_one_rank({"layout.cp=4", "policy.micro_batch=3"}, {"net.periodic=false"});
  swin_like_one_rank({"layout.cp=2", "layout.tp=2", "policy.recompute=selective"},
                     {"net.relative_position_bias=false"});
}

TEST(SwinTraining, PassesTheSkipsThroughStagesBetween) {
  swin_like_one_rank({"layout.pp=5", "policy.micro_batch=2"});
  swin_like_one_rank({"layout.pp=2", "layout.vpp=3", "policy.schedule=interleaved", "policy.micro_batch=2"});
}

TEST(SwinTraining, SplitsItsBackwardPass) {
  swin_like_one_rank({"layout.pp=3", "layout.tp=2", "policy.schedule=zb-h1", "policy.micro_batch=1"});
}

TEST(SwinTraining, RecomputesItsParts) {
  swin_like_one_rank({"policy.recompute=full", "policy.micro_batch=6"});
  swin_like_one_rank(
      {"policy.recompute=full", "policy.recompute_num_layers=4", "layout.pp=2", "policy.micro_batch=2"});
  swin_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=3",
                      "policy.recompute_method=block", "layout.pp=2", "layout.cp=2", "policy.micro_batch=2"});
  swin_like_one_rank({"policy.recompute=selective", "layout.pp=3", "policy.micro_batch=2"});
}

TEST(SwinTraining, KeepsItsUnitsInShards) {
  swin_like_one_rank(
      {"layout.dp=2", "layout.pp=2", "policy.zero=3", "policy.micro_batch=1", "policy.bucket_mb=0.05"});
}

TEST(SwinTraining, RollsOut) {
  swin_like_one_rank({"layout.cp=2", "layout.pp=2", "policy.micro_batch=2"},
                     {"net.out_channels=3", "train.rollout=2", "train.prediction=increment"});
}

}  // namespace
}  // namespace isobar::engine
