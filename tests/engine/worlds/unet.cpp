// A net of unequal parts with a skip connection, under every axis, trains like one rank. The skip jumps over
// stages that neither produce nor consume it.
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

void like_one_rank(const Words& layout) {
  expect_like_one_rank(layout, kUnet);
}

TEST(Unet, TrainsUnderAllAxesAtOnceLikeOneRank) {
  like_one_rank({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.micro_batch=1"});
  like_one_rank({"layout.tp=2", "layout.pp=3", "policy.micro_batch=1"});
}

// Five stages of nine parts: the middle stage forwards the skip.
TEST(Unet, PassesTheSkipThroughStagesBetween) {
  like_one_rank({"layout.pp=5", "policy.micro_batch=2"});
  like_one_rank({"layout.pp=4", "policy.schedule=gpipe", "policy.micro_batch=3"});
}

TEST(Unet, RunsInChunksOfUnequalParts) {
  like_one_rank({"layout.pp=2", "layout.vpp=3", "policy.schedule=interleaved", "policy.micro_batch=2"});
  like_one_rank({"layout.pp=4", "layout.vpp=2", "policy.schedule=interleaved", "policy.micro_batch=3"});
}

TEST(Unet, SplitsItsBackwardPass) {
  like_one_rank({"layout.pp=3", "policy.schedule=zb-h1", "policy.micro_batch=1"});
  like_one_rank(
      {"layout.pp=2", "layout.dp=2", "policy.schedule=zb-h1", "policy.micro_batch=1", "policy.zero=1"});
}

TEST(Unet, RecomputesItsParts) {
  like_one_rank({"policy.recompute=full", "policy.micro_batch=6"});
  like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=9", "policy.micro_batch=6"});
  like_one_rank(
      {"policy.recompute=full", "policy.recompute_num_layers=4", "layout.pp=2", "policy.micro_batch=2"});
  like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=3", "policy.recompute_method=block",
                 "layout.pp=2", "layout.tp=2", "policy.micro_batch=2"});
  like_one_rank({"policy.recompute=selective", "layout.pp=3", "policy.micro_batch=2"});
}

TEST(Unet, KeepsItsUnitsInShards) {
  for (const char* zero : {"1", "2", "3"})
    like_one_rank({"layout.dp=2", "layout.pp=2", std::string("policy.zero=") + zero, "policy.micro_batch=1",
                   "policy.bucket_mb=0.05"});
}

}  // namespace
}  // namespace isobar::engine
