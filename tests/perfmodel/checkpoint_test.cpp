// What a checkpoint costs, by hand.
#include "perfmodel/step/checkpoint.h"

#include <gtest/gtest.h>

#include "perfmodel/layout_predict.h"

namespace isobar {
namespace {

RunSpec gpt(int64_t dp, int64_t tp, int64_t pp) {
  RunSpec s;
  s.file = "test";
  s.net.kind = "gpt";
  s.net.embed_dim = 4096;
  s.net.depth = 8;
  s.net.num_heads = 32;
  s.net.seq_length = 2048;
  s.net.vocab_size = 51200;
  s.policy.amp = "bf16";
  s.policy.micro_batch = 1;
  s.layout = {.dp = dp, .tp = tp, .pp = pp};
  s.train.global_batch = 16 * dp;
  s.train.checkpoint_every = 100;
  return s;
}

TEST(Checkpoint, HoldsParametersAndMomentsOnceWhateverTheLayout) {
  const Machine m = load_machine(std::string(ISOBAR_SOURCE_DIR) + "/configs/machines/dgx-a100.yaml");
  // 12 h^2 + 13 h a block, two norms; the head is of its own
  const double h = 4096, parameters = 8 * (12 * h * h + 13 * h) + 2 * 51200 * h + 2048 * h + 2 * h;
  for (const auto& [dp, tp, pp] : {std::array<int64_t, 3>{1, 1, 1}, {4, 1, 1}, {2, 4, 1}, {1, 2, 4}}) {
    const RunSpec s = gpt(dp, tp, pp);
    const LayoutPrediction p = predict_layout(s, m);
    EXPECT_NEAR(p.checkpoint.bytes / (12 * parameters), 1, 1e-9) << dp << tp << pp;
    EXPECT_NEAR(p.checkpoint.seconds / (p.checkpoint.bytes * m[Coef::checkpoint].value), 1, 1e-9);
    EXPECT_NEAR(p.checkpoint.per_step * 100 / p.checkpoint.seconds, 1, 1e-12);
  }
}

TEST(Checkpoint, ShardsAreWrittenByAllHostsAtOnce) {
  const Machine m = load_machine(std::string(ISOBAR_SOURCE_DIR) + "/configs/machines/dgx-a100.yaml");
  RunSpec s = gpt(16, 2, 1);  // 4 hosts of 8
  const double whole = predict_layout(s, m).checkpoint.seconds;
  s.policy.zero = 1;
  EXPECT_NEAR(whole / predict_layout(s, m).checkpoint.seconds, 4, 1e-9);
  s.train.optimizer = "sgd";
  EXPECT_NEAR(whole / predict_layout(s, m).checkpoint.seconds, 6, 1e-9);
  s.train.checkpoint_every = 0;
  EXPECT_EQ(predict_layout(s, m).checkpoint.per_step, 0);
}

}  // namespace
}  // namespace isobar
