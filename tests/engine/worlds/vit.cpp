// A ViT under every layout axis trains like one rank: each axis alone, all together, serial and overlapped.
// (product.cpp covers all layouts of up to 8 ranks.)
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

TEST(Layouts, OneRankLearns) {
  expect_learns(kVit, 0.99);
}

TEST(Layouts, MicroBatchesAndRecomputation) {
  expect_like_one_rank({"policy.micro_batch=3"});
  expect_like_one_rank({"policy.recompute=selective"});
  expect_like_one_rank({"policy.recompute=full", "policy.micro_batch=4"});
  expect_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2", "policy.micro_batch=4"});
  expect_like_one_rank(
      {"policy.recompute=full", "policy.recompute_method=block", "policy.recompute_num_layers=3"});
}

TEST(Layouts, TensorParallel) {
  expect_like_one_rank({"layout.tp=2"});
  expect_like_one_rank({"layout.tp=4", "policy.micro_batch=4", "policy.recompute=full"});
  expect_like_one_rank({"layout.tp=2", "policy.sequence_parallel=true"});
  expect_like_one_rank({"layout.tp=4", "policy.sequence_parallel=true", "policy.micro_batch=1"});
}

TEST(Layouts, ContextParallel) {
  expect_like_one_rank({"layout.cp=2"});
  expect_like_one_rank({"layout.cp=3", "policy.micro_batch=1"});
  expect_like_one_rank({"layout.cp=3", "policy.micro_batch=4", "policy.recompute=selective"});
}

TEST(Layouts, ContextParallelRing) {
  expect_like_one_rank({"layout.cp=2", "policy.cp_kind=ring"});
  expect_like_one_rank({"layout.cp=3", "policy.cp_kind=ring", "policy.micro_batch=4"});
  expect_like_one_rank({"layout.cp=3", "policy.cp_kind=ring", "policy.micro_batch=1"});
  expect_like_one_rank(
      {"layout.cp=4", "policy.cp_kind=ring", "policy.micro_batch=4", "policy.recompute=selective"});
}

TEST(Layouts, ContextParallelUlysses) {
  expect_like_one_rank({"layout.cp=2", "policy.cp_kind=ulysses"});
  expect_like_one_rank({"layout.cp=4", "policy.cp_kind=ulysses", "policy.micro_batch=1"});
  expect_like_one_rank(
      {"layout.cp=2", "policy.cp_kind=ulysses", "policy.micro_batch=4", "policy.recompute=selective"});
  expect_like_one_rank(
      {"layout.cp=4", "policy.cp_kind=ulysses", "policy.micro_batch=3", "policy.recompute=full"});
}

TEST(Layouts, PipelineParallel) {
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=2", "policy.schedule=gpipe"});
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=2"});
  expect_like_one_rank({"layout.pp=4", "policy.micro_batch=1"});
  expect_like_one_rank({"layout.pp=5", "policy.micro_batch=4"});
  expect_like_one_rank(
      {"layout.pp=2", "layout.vpp=2", "policy.micro_batch=3", "policy.schedule=interleaved"});
}

TEST(Layouts, ZeroBubble) {
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.pp=4", "policy.micro_batch=1", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=12", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1",
                        "policy.bucket_mb=0.05"});
  expect_like_one_rank({"layout.tp=2", "layout.pp=2", "policy.micro_batch=6", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=1", "policy.schedule=zb-h1", "policy.bucket_mb=0.05"});
  expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=3", "policy.schedule=zb-h1", "policy.overlap=false"});
}

TEST(Layouts, Combined) {
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=3", "policy.bucket_mb=0.05"});
  expect_like_one_rank(
      {"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=3", "policy.recompute=full"});
  expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=3", "policy.recompute=full", "policy.recompute_num_layers=2"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "layout.order=pp-dp-tp", "policy.micro_batch=1", "policy.overlap=false"});
  expect_like_one_rank({"layout.dp=2", "layout.cp=2", "layout.pp=2", "layout.vpp=2",
                        "policy.schedule=interleaved", "policy.micro_batch=1", "layout.order=cp-pp-dp"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.cp_kind=ring",
                        "policy.sequence_parallel=true", "policy.micro_batch=3", "policy.bucket_mb=0.05"});
  expect_like_one_rank(
      {"layout.cp=3", "layout.pp=2", "policy.cp_kind=ring", "policy.micro_batch=2", "policy.recompute=full"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.cp_kind=ulysses",
                        "policy.sequence_parallel=true", "policy.micro_batch=3"});
  expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.cp_kind=ulysses",
                        "policy.micro_batch=3", "policy.recompute=selective"});
}

TEST(Layouts, SerialAndOverlappedAreTheSameToTheBit) {
  for (const Words& layout :
       {Words{"layout.tp=2", "layout.pp=2", "policy.micro_batch=2"},
        Words{"layout.dp=2", "layout.cp=2", "policy.micro_batch=2", "policy.bucket_mb=0.05"},
        Words{"layout.dp=2", "layout.cp=2", "policy.micro_batch=2", "policy.cp_kind=ulysses"},
        Words{"layout.cp=4", "policy.micro_batch=2", "policy.cp_kind=ring"},
        Words{"layout.dp=4", "policy.micro_batch=1", "policy.zero=1", "policy.bucket_mb=0.05"},
        Words{"layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.zero=3"}})
    expect_same_bits(layout, layout + Words{"run.serial=true"});
}

}  // namespace
}  // namespace isobar::engine
