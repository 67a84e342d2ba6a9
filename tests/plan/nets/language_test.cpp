// Language models: their parameters by published counts, the padding of tables, rotary angles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/transformer/rotary.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

TEST(LanguageModels, HaveTheParametersThatWerePublished) {
  const auto count = [](const char* model) {
    return plan_of(model, {"layout.dp=1", "layout.tp=1", "layout.pp=1", "train.global_batch=1",
                           "policy.micro_batch=1"})
        .parameter_count();
  };
  EXPECT_EQ(count("gpt2-124m"), 124439808);
  EXPECT_EQ(count("llama3-8b"), 8030261248);
  EXPECT_EQ(count("llama3-70b"), 70553706496);
  EXPECT_EQ(count("qwen3-8b"), 8190735360);
  EXPECT_EQ(count("qwen2.5-72b"), 72706203648);
}

// 300 words on four ranks: 128 each, of which the third has 44 and the last none.
TEST(LanguageModels, CutTheirTablesWithThePadding) {
  const std::vector<int64_t> held = {128, 128, 44, 0};
  int64_t flat = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const Plan plan =
        plan_of("llama-tiny",
                {"net.vocab_size=300", "net.num_kv_heads=4", "layout.tp=4", "train.global_batch=4"}, rank);
    if (rank == 0) flat = plan.params_all.count;
    EXPECT_EQ(plan.params_all.count, flat) << "every rank has room for the same";
    int tables = 0;
    for (const Param& p : plan.params) {
      if (p.name != "embed.weight" && p.name != "head.weight") continue;
      ++tables;
      EXPECT_EQ(p.shape, (std::vector<int64_t>{300, 64}));
      EXPECT_EQ(p.extent, held[static_cast<size_t>(rank)]) << p.name;
      EXPECT_EQ(p.count, 64 * p.extent);
      EXPECT_EQ(p.reserved, 64 * 128);
    }
    EXPECT_EQ(tables, 2);
    for (const Op& op : plan.ops) {
      if (op.kind == OpKind::cross_entropy) {
        EXPECT_EQ(op.as<CrossEntropyAttrs>().padding, 128 - held[static_cast<size_t>(rank)]);
      }
    }
  }
}

TEST(LanguageModels, TurnByTheAnglesOfLlama) {
  const std::vector<double> plain = nets::rotary_frequencies({.theta = 500000}, 128);
  ASSERT_EQ(plain.size(), 64u);
  EXPECT_EQ(plain[0], 1);
  EXPECT_NEAR(plain[63], std::pow(500000.0, -126.0 / 128), 1e-15);
  // Llama 3.1: wavelengths below 2,048 stay, those above 8,192 are eight times as long.
  const std::vector<double> scaled = nets::rotary_frequencies({.theta = 500000, .factor = 8}, 128);
  for (size_t i = 0; i < 64; ++i) {
    const double wavelength = 2 * M_PI / plain[i], ratio = plain[i] / scaled[i];
    const double smooth = std::clamp((8192 / wavelength - 1) / 3, 0.0, 1.0);
    EXPECT_NEAR(scaled[i], (1 - smooth) * plain[i] / 8 + smooth * plain[i], 1e-15) << i;
    EXPECT_NEAR(ratio, wavelength < 2048 ? 1 : wavelength > 8192 ? 8 : ratio, 1e-12) << i;
  }
}

// Megatron's and transformers' formula, by the numbers of DeepSeek-V3: 64 columns, 40 times 4,096 tokens
TEST(LanguageModels, TurnByTheAnglesOfYarn) {
  const RotarySpec yarn{
      .scaling = RopeScaling::yarn, .factor = 40, .original_length = 4096, .mscale = 1, .mscale_all_dim = 1};
  const std::vector<double> plain = nets::rotary_frequencies({}, 64),
                            scaled = nets::rotary_frequencies(yarn, 64);
  for (size_t i = 0; i < 32; ++i) {  // pairs up to 10 turn 32 times or more, those from 23 on once at most
    const double kept = i <= 10 ? 1 : i >= 23 ? 0 : (23 - static_cast<double>(i)) / 13;
    EXPECT_NEAR(scaled[i], plain[i] * (kept + (1 - kept) / 40), 1e-15) << i;
  }
  EXPECT_EQ(nets::rotary_values(yarn, 64, {0, 1})[0], 1) << "mscale over mscale_all_dim";
  RotarySpec alone = yarn;
  alone.mscale = alone.mscale_all_dim = 0;
  EXPECT_NEAR(nets::rotary_values(alone, 64, {0, 1})[0], 0.1 * std::log(40.0) + 1, 1e-6);
}

TEST(LanguageModels, AWindowLeavesTheWorkOfWhatIsSeen) {
  const auto flops = [](const std::string& window) {
    const Plan plan = plan_of("llama-tiny", {"net.seq_length=256", "net.sliding_window=" + window});
    for (const Op& op : plan.ops)
      if (op.kind == OpKind::attention) return work(op, plan).flops;
    return 0.0;
  };
  const double all = flops("0"), pairs = 256.0 * 257 / 2, seen = 64 * 256 - 64.0 * 63 / 2;
  EXPECT_NEAR(flops("64") / all, seen / pairs, 0.01);
  EXPECT_EQ(flops("256"), all);
  EXPECT_EQ(to_text(plan_of("llama-tiny", {"net.sliding_window=500"})), to_text(plan_of("llama-tiny", {})));
  EXPECT_NE(to_text(plan_of("llama-tiny", {"net.sliding_window=20"})), to_text(plan_of("llama-tiny", {})));
}

TEST(LanguageModels, WhatNoKernelRunsIsForPredictions) {
  for (const auto& [setting, key] :
       {std::pair{"policy.attention=unfused", "policy.attention"}, {"policy.amp=fp8", "policy.amp"}}) {
    const RunSpec spec = spec_of("gpt-tiny", {setting});
    try {
      nets::require_kernels(spec, nets::build_plan(spec, 0, {}));
      ADD_FAILURE() << setting << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
  }
  const RunSpec spec = spec_of("gpt-tiny", {"layout.cp=2"});
  EXPECT_NO_THROW(nets::require_kernels(spec, nets::build_plan(spec, 0, {})));
}

}  // namespace
}  // namespace isobar::plan
