// ZeRO stages, which partition state over ranks with the same parameters; gradients in bf16.
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

TEST(Layouts, ZeroRedundancy) {
  for (const char* zero : {"policy.zero=1", "policy.zero=2", "policy.zero=3"}) {
    expect_like_one_rank({"layout.dp=2", zero});
    expect_like_one_rank({"layout.dp=3", zero, "policy.micro_batch=1", "policy.bucket_mb=0.05"});
    expect_like_one_rank({"layout.dp=2", "layout.tp=2", zero, "policy.sequence_parallel=true",
                          "policy.micro_batch=3", "policy.overlap=false"});
    expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", zero, "policy.micro_batch=3",
                          "policy.recompute=full", "policy.bucket_mb=0.05"});
  }
  expect_like_one_rank(
      {"layout.tp=2", "policy.zero=3", "policy.sequence_parallel=true", "policy.micro_batch=3"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "layout.vpp=2", "policy.zero=3", "policy.micro_batch=1",
                        "policy.schedule=interleaved"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "policy.zero=1", "policy.micro_batch=1",
                        "policy.schedule=zb-h1", "policy.bucket_mb=0.05"});
}

// A sum of two addends does not depend on their order: with two ranks and one micro-batch ZeRO changes not a
// single bit, in any type.
TEST(Layouts, ZeroStagesAreTheSameToTheBit) {
  for (const auto& [amp, grads] : {std::pair{"policy.amp=none", "policy.main_grads_dtype=fp32"},
                                   {"policy.amp=bf16", "policy.main_grads_dtype=fp32"},
                                   {"policy.amp=bf16", "policy.main_grads_dtype=bf16"}}) {
    const Words whole = {"layout.dp=2", "policy.bucket_mb=0.05", amp, grads};
    for (const char* zero : {"1", "2", "3"})
      expect_same_bits(whole, whole + Words{std::string("policy.zero=") + zero});
  }
}

// Gradients accumulated and reduced in bf16 (8 bits) are close to those in f32, but not equal.
TEST(Layouts, GradientsInBf16) {
  for (const Words& layout :
       {Words{"policy.micro_batch=3"},
        {"layout.dp=2", "layout.tp=2", "policy.zero=2", "policy.micro_batch=2"},
        {"layout.dp=3", "policy.zero=3", "policy.micro_batch=1"},
        {"layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.bucket_mb=0.05"}}) {
    const auto many = trained_here(kVit, layout + Words{"policy.main_grads_dtype=bf16"});
    if (!many) continue;
    const Deviation d = compare(*many, one_rank(), session());
    EXPECT_LT(d.losses, 2e-3) << title_of(kVit, layout);
    EXPECT_LT(d.weights, 0.02) << title_of(kVit, layout);
    EXPECT_GT(d.weights, 1e-5) << title_of(kVit, layout);
  }
}

}  // namespace
}  // namespace isobar::engine
