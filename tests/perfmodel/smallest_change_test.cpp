// Runs that do not fit, and the smallest change after which they do.
#include "perfmodel/ask/smallest_change.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "support.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

RunSpec gpt(int64_t dp) {
  RunSpec s;
  s.file = "gpt.yaml";
  GptSpec net;
  net.embed_dim = 4096;
  net.depth = 32;
  net.num_heads = 32;
  net.seq_length = 2048;
  net.vocab_size = 51200;
  s.net = net;
  s.policy.amp = Amp::bf16;
  s.policy.micro_batch = 1;
  s.layout.dp = dp;
  s.train.global_batch = 64;
  s.run.device = RunDevice::cuda;
  return s;
}

Machine a100(double gigabytes) {
  Machine m = load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  m.accelerator->reported_bytes = std::llround(gigabytes * 1e9);
  return m;
}

RunSpec with(RunSpec s, const std::vector<std::string>& set) {
  nlohmann::json j = to_json(s);
  for (const std::string& one : set) {
    const size_t dot = one.find('.'), is = one.find('=');
    const std::string value = one.substr(is + 1);
    nlohmann::json v = nlohmann::json::parse(value, nullptr, false);
    j[one.substr(0, dot)][one.substr(dot + 1, is - dot - 1)] = v.is_discarded() ? nlohmann::json(value) : v;
  }
  return run_spec_from_json(j, s.file);
}

TEST(SmallestChange, FitsAndIsNoLargerThanItMustBe) {
  for (const double gigabytes : {100.0, 60.0, 40.0, 16.0}) {
    const Machine m = a100(gigabytes);
    const RunSpec s = gpt(8);
    const Prediction p = predict(s, m, {});
    ASSERT_FALSE(p.fits()) << gigabytes;
    ASSERT_FALSE(p.warnings.empty());
    EXPECT_NE(p.warnings[0].find("does not fit: a rank needs"), std::string::npos) << p.warnings[0];
    const auto c = smallest_change(s, m, {});
    ASSERT_TRUE(c) << gigabytes;
    EXPECT_TRUE(c->prediction.fits());
    // The printed change reproduces the result.
    const Prediction again = predict(with(s, c->set), m, {});
    EXPECT_TRUE(again.fits());
    EXPECT_DOUBLE_EQ(again.step_s, c->prediction.step_s);
    if (c->set.size() > 1) {  // then no single common key suffices
      for (const char* one : {"policy.recompute=selective", "policy.recompute=full", "policy.zero=1",
                              "policy.zero=2", "policy.zero=3", "policy.offload_optimizer=true"})
        if (c->spec.layout.dp == s.layout.dp) EXPECT_FALSE(predict(with(s, {one}), m, {}).fits()) << one;
    } else {  // the fastest of single keys
      for (const char* one : {"policy.recompute=selective", "policy.recompute=full", "policy.zero=1",
                              "policy.zero=2", "policy.zero=3", "policy.offload_optimizer=true"}) {
        const Prediction other = predict(with(s, {one}), m, {});
        if (other.fits()) EXPECT_GE(other.step_s, c->prediction.step_s * (1 - 1e-9)) << one;
      }
    }
  }
}

TEST(SmallestChange, TakesMoreRanksWhereNothingElseHelpsAndSaysWhenNothingDoes) {
  const RunSpec s = gpt(1);  // 7 G parameters on one accelerator
  const auto c = smallest_change(s, a100(24), {});
  ASSERT_TRUE(c);
  EXPECT_GT(c->spec.layout.world(), 1);
  EXPECT_TRUE(c->prediction.fits());
  EXPECT_FALSE(smallest_change(s, a100(1), {}));
}

TEST(SmallestChange, OnCoresIsConfirmedByThePlacedPlans) {
  Machine m = test::machine();
  RunSpec s = test::tiny();
  s.layout.dp = 2;
  const Prediction p = predict(s, m, {});
  m.identity.memory_bytes = std::llround(2 * 0.97 * static_cast<double>(p.memory_total));
  ASSERT_FALSE(predict(s, m, {}).fits());
  const auto c = smallest_change(s, m, {});
  ASSERT_TRUE(c);
  EXPECT_EQ(c->spec.layout.world(), 2);
  EXPECT_TRUE(predict(c->spec, m, {}).fits());
}

}  // namespace
}  // namespace isobar::perf
