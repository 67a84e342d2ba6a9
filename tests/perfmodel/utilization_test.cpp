// Model and hardware FLOPs against the closed forms of the papers that define them.
#include "perfmodel/step/utilization.h"

#include <gtest/gtest.h>

#include "perfmodel/ask/predict.h"
#include "support.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

RunSpec gpt() {
  RunSpec s;
  s.file = "gpt.yaml";
  GptSpec net;
  net.embed_dim = 4096;
  net.depth = 16;
  net.num_heads = 32;
  net.seq_length = 2048;
  net.vocab_size = 51200;
  s.net = net;
  s.policy.amp = Amp::bf16;
  s.policy.micro_batch = 1;
  s.policy.attention = AttentionKind::unfused;  // keeps its weights: only the policy recomputes
  s.layout = {.dp = 4, .tp = 2};
  s.train.global_batch = 16;
  s.run.device = RunDevice::cuda;
  return s;
}

TEST(Utilization, ModelFlopsAreNarayanansWithoutRecomputationWhateverThePolicy) {
  RunSpec s = gpt();
  const double B = 16, l = 16, h = 4096, t = 2048, V = 51200;
  const double narayanan = 72 * B * t * l * h * h * (1 + t / (6 * h) + V / (12 * l * h));  // 96 with full
  const double counted = nets::model_flops(s);
  EXPECT_NEAR(counted / narayanan, 1, 1e-3);
  s.policy.recompute = Recompute::full;
  s.policy.recompute_num_layers = 2;
  s.layout = {.dp = 2, .tp = 2, .pp = 2};
  EXPECT_DOUBLE_EQ(nets::model_flops(s), counted);
}

TEST(Utilization, HardwareFlopsCountRecomputationAndMfuDoesNot) {
  const Machine m = load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  RunSpec s = gpt();
  const Prediction plain = predict(s, m, {});
  s.policy.recompute = Recompute::full;
  const Prediction full = predict(s, m, {});
  const double model = nets::model_flops(s);
  EXPECT_NEAR(plain.hardware_flops / model, 1, 0.01);
  // A block's forward pass is repeated without its unused last product: per token and block 24 h^2 + 4 t h
  // FLOPs, of which 8 h^2 are that product.
  const double h = 4096, t = 2048, head = 51200 / (12 * 16 * h);
  const double blocks = 1 - head / (1 + t / (6 * h) + head), again = 1 - 8 * h / (24 * h + 4 * t);
  EXPECT_NEAR(full.hardware_flops / model, 1 + blocks * again / 3, 1e-3);
  const Rates r = rates_of(full, s, m);
  EXPECT_NEAR(r.hfu / r.mfu, full.hardware_flops / model, 1e-9);
  EXPECT_NEAR(r.mfu, model / full.step_s / 8 / m.peaks.at("bf16").value, 1e-9);
  EXPECT_LT(r.hfu, 1);
  const std::string text = text_of(r);
  for (const char* word : {"model ", "hardware ", "MFU", "HFU"})
    EXPECT_NE(text.find(word), std::string::npos);
}

TEST(Utilization, OnCoresThePeakIsThatOfTheCoresThatARankCanUse) {
  Machine m = test::machine();
  m.identity.cores = 8;
  RunSpec s = test::tiny();
  s.layout.dp = 2;
  s.run.threads = 3;
  const Prediction p = predict(s, m, {});
  EXPECT_NEAR(rates_of(p, s, m).hfu, p.hardware_flops / p.step_s / 2 / (3 * m.peaks.at("f32").value), 1e-12);
  EXPECT_NEAR(p.hardware_flops / nets::model_flops(s), 1, 0.2);  // flash attention recomputes its weights
  EXPECT_LT(rates_of(p, s, m).hfu, 1);
}

}  // namespace
}  // namespace isobar::perf
