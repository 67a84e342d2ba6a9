// ZeRO stages, which partition state over ranks with the same parameters: with offloaded moments, bf16
// gradients, and across checkpoints.
#include "tests/engine/layouts.h"

namespace isobar {
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
    const Folder dir;
    const TrainedNet a = run(dir / "0", whole, 2);
    ASSERT_EQ(a.record.losses.size(), 10u);
    for (const char* zero : {"1", "2", "3"}) {
      SCOPED_TRACE(std::string(amp) + " " + grads + " stage " + zero);
      Words sharded = whole;
      sharded.push_back(std::string("policy.zero=") + zero);
      const TrainedNet b = run(dir / zero, sharded, 2);
      EXPECT_EQ(a.record.losses, b.record.losses);
      EXPECT_EQ(distance(a.weights, b.weights), 0);
    }
  }
}

// The location of the moments does not affect training.
TEST(Layouts, OffloadChangesNothing) {
  int n = 0;
  const Folder dir;
  for (const auto& [layout, ranks] : std::vector<std::pair<Words, int64_t>>{
           {{"policy.bucket_mb=0.1"}, 1},
           {{"policy.amp=bf16", "train.optimizer=sgd", "policy.bucket_mb=0.1", "policy.overlap=false"}, 1},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=2", "policy.bucket_mb=0.05"}, 4}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    Words offloaded = layout;
    offloaded.emplace_back("policy.offload_optimizer=true");
    const TrainedNet a = run(dir / std::to_string(n++), layout, ranks),
                     b = run(dir / std::to_string(n++), offloaded, ranks);
    ASSERT_EQ(a.record.losses.size(), 10u);
    EXPECT_EQ(a.record.losses, b.record.losses);
    EXPECT_EQ(distance(a.weights, b.weights), 0);
    const auto &kept = a.record.start["memory"]["by_category"],
               &gone = b.record.start["memory"]["by_category"];
    EXPECT_EQ(gone["adam"], 0);
    EXPECT_EQ(gone["host"], kept["adam"]);
    EXPECT_LT(b.record.start["memory"]["arena"], a.record.start["memory"]["arena"]);
  }
}

// Gradients accumulated and reduced in bf16 (8 bits) are close to those in f32, but not equal.
TEST(Layouts, GradientsInBf16) {
  const Folder dir;
  int n = 0;
  for (const auto& [layout, ranks] : std::vector<std::pair<Words, int64_t>>{
           {{"policy.micro_batch=3"}, 1},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=2", "policy.micro_batch=2"}, 4},
           {{"layout.dp=3", "policy.zero=3", "policy.micro_batch=1"}, 3},
           {{"layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.bucket_mb=0.05"}, 4}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    Words words = layout;
    words.emplace_back("policy.main_grads_dtype=bf16");
    const TrainedNet many = run(dir / std::to_string(n++), words, ranks);
    ASSERT_EQ(many.record.losses.size(), 10u);
    for (const auto& [step, loss] : one_rank().record.losses)
      EXPECT_NEAR(many.record.losses.at(step) / loss, 1, 2e-3) << "step " << step;
    const double weights = distance(one_rank().weights, many.weights);
    EXPECT_LT(weights, 0.02);
    EXPECT_GT(weights, 1e-5);
    std::printf("weights %.1e\n", weights);
  }
}

// A checkpoint does not depend on the layout that wrote it.
TEST(Layouts, ResumeAsAnyOther) {
  const Folder dir;
  const Words save = {"train.checkpoint_every=5"};
  Words first = {"layout.tp=2", "layout.pp=2", "layout.dp=2", "policy.zero=1", "policy.micro_batch=3"};
  first.insert(first.end(), save.begin(), save.end());
  const TrainedNet a = run(dir / "a", first, 8);
  ASSERT_EQ(a.record.losses.size(), 10u);
  const std::string middle = dir / "a/checkpoints/step-00000005";
  for (const auto& [name, layout, ranks] : std::vector<std::tuple<std::string, Words, int64_t>>{
           {"one", {}, 1},
           {"b", {"layout.cp=2", "layout.dp=2", "policy.zero=3", "policy.micro_batch=2"}, 4},
           {"c", {"layout.tp=2", "layout.dp=2", "policy.zero=2", "policy.sequence_parallel=true"}, 4}}) {
    SCOPED_TRACE(name);
    const TrainedNet b = run(dir / name, layout, ranks, {"--resume", middle});
    ASSERT_EQ(b.record.losses.size(), 5u);
    for (const auto& [step, loss] : b.record.losses)
      EXPECT_NEAR(loss / a.record.losses.at(step), 1, 1e-6) << "step " << step;
    EXPECT_LT(distance(a.weights, b.weights), 1e-6);
  }
}

}  // namespace
}  // namespace isobar
