#include "perfmodel/machine/machine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/base/error.h"
#include "tests/paths.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

TEST(MachineFile, ReadsBackWhatWasWritten) {
  Machine m = test::machine();
  m.fit = FitRecord{.runs = {"007", "run b"},
                    .statistic = Statistic::p10,
                    .notes = {"peaks.f32 was raised: \"why\""},
                    .quantile = 1.37,
                    .spread = {{"all", 0.04}, {"ranks", 0.06}},
                    .range = {{"tokens", {16, 64}}},
                    .effects = {{"shape: vit b", 0.01}, {"host: a", -0.02}},
                    .effect_sigma = {{"host", 0.03}, {"shape", 0.01}},
                    .covariance = std::vector<double>((kCoefs + 2) * (kCoefs + 2), 0)};
  m.timed = {{"embed_dim", {128, 384}}, {"threads", {1, 2}}};
  for (size_t i = 0; i < kCoefs; ++i) {
    m.coefficients[i] = Coefficient::make(m.coefficients[i].value * (1 + 0.013 * static_cast<double>(i)),
                                          0.21, {"gemm/f32/a: b", "123"});
  }
  for (size_t i = 0; i < kCoefs + 2; ++i)
    for (size_t j = 0; j < kCoefs + 2; ++j)
      m.fit->covariance[i * (kCoefs + 2) + j] = 1e-3 * static_cast<double>((i + 1) * (j + 1)) / 7;
  const Machine back = parse_machine(to_yaml(m), "m.yaml");
  EXPECT_EQ(to_yaml(parse_machine(to_yaml(back), "m.yaml")), to_yaml(back));
  EXPECT_EQ(back.identity.cpu, m.identity.cpu);
  EXPECT_EQ(back.values(), m.values());
  EXPECT_EQ(back[Coef::norm].provenance, m[Coef::norm].provenance);
  ASSERT_TRUE(back.fit);
  EXPECT_EQ(back.fit->runs, m.fit->runs);
  const auto covariance = [](const Machine& x, const std::string& effect, size_t coef) {
    const auto& e = x.fit->effects;
    const size_t at =
        std::find_if(e.begin(), e.end(), [&](auto& p) { return p.first == effect; }) - e.begin();
    return x.fit->covariance.at((kCoefs + at) * (kCoefs + e.size()) + coef);
  };
  for (const char* effect : {"shape: vit b", "host: a"})
    for (size_t i = 0; i < kCoefs; ++i) EXPECT_EQ(covariance(back, effect, i), covariance(m, effect, i));
  for (size_t i = 0; i < kCoefs; ++i)
    for (size_t j = 0; j < kCoefs; ++j)
      EXPECT_EQ(back.fit->covariance[i * (kCoefs + 2) + j], m.fit->covariance[i * (kCoefs + 2) + j]);
  EXPECT_EQ(back.fit->effect_sigma, m.fit->effect_sigma);
  EXPECT_EQ(back.fit->statistic, Statistic::p10);
  EXPECT_EQ(back.fit->notes, m.fit->notes);
  EXPECT_EQ(back.fit->spread, m.fit->spread);
  EXPECT_EQ(back.fit->range, m.fit->range);
  EXPECT_EQ(back.timed, m.timed);
}

TEST(MachineFile, RefusesARangeOfWhatWasTimedThatIsNone) {
  Machine m = test::machine();
  m.timed = {{"embed_dim", {128, 384}}};
  std::string text = to_yaml(m);
  text.replace(text.find("128, 384"), 8, "384, 128");
  try {
    parse_machine(text, "m.yaml");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("timed.embed_dim"), std::string::npos) << e.what();
  }
}

// Older files include the softmax's price in that of attention's FLOPs; predictions stay the same.
TEST(MachineFile, OlderFilesHaveTheSoftmaxWithinAttention) {
  std::string text = test::kSpecSheet;
  text += R"(
coefficients:
  attention.forward.f32: {value: 1.2e-11, unit: "s/FLOP", lower: 1.1e-11, upper: 1.3e-11, provenance: ["a"]}
)";
  const Machine m = parse_machine(text, "m.yaml");
  const plan::Plan plan = nets::build_plan(test::tiny(), 0, {});
  const Conditions where{.cores = 2};
  for (const plan::Op& op : plan.ops) {
    if (op.kind != plan::OpKind::attention) continue;
    const Counts n = count_op(op, plan, cache_share(m, 1), where);
    const double rest = n[index_of(Coef::op)] * m[Coef::op].value;
    EXPECT_NEAR((seconds(n, rates(m.values(), where)) - rest) / (plan::work(op, plan).flops * 1.2e-11), 1,
                1e-3);
  }
  EXPECT_GT(m[Coef::softmax_bf16].value, 1e-10);  // absent from the file: the spec sheet's
}

TEST(MachineFile, DerivesWhatItLeavesOutFromTheSpecSheet) {
  const Machine m = parse_machine(test::kSpecSheet, "m.yaml");
  for (size_t i = 0; i < kCoefs; ++i) {
    EXPECT_GT(m.coefficients[i].value, 0) << info_of(i).name;
    EXPECT_GE(m.coefficients[i].value, m.floor_of(i)) << info_of(i).name;
    EXPECT_EQ(m.coefficients[i].provenance, std::vector<std::string>{"spec"});
    EXPECT_GT(m.coefficients[i].log_sigma(), 0.3) << info_of(i).name;
  }
}

struct Bad {
  const char* name;
  const char* from;  // replaced in a good file by `to`
  const char* to;
  const char* key;  // that the message must name
};
class BadMachineFile : public testing::TestWithParam<Bad> {};

TEST_P(BadMachineFile, IsRefusedWithItsKey) {
  std::string text = to_yaml(test::machine());
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  try {
    parse_machine(text, "bad.yaml");
    FAIL() << "accepted:\n" << text;
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("bad.yaml"), std::string::npos) << what;
    EXPECT_NE(what.find(GetParam().key), std::string::npos) << what;
    EXPECT_NE(what.find("->"), std::string::npos) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadMachineFile,
    testing::Values(Bad{"unknown_key", "identity:", "identiti:", "identiti"},
                    Bad{"no_cores", "cores: 2", "cores: 0", "identity.cores"},
                    Bad{"cores_of_text", "cores: 2", "cores: two", "identity.cores"},
                    Bad{"unknown_coefficient", "gemm.bf16:", "gemm.fp8:", "gemm.fp8"},
                    Bad{"wrong_unit", "unit: \"s/FLOP\"", "unit: \"FLOP/s\"", "coefficients.gemm.f32.unit"},
                    Bad{"negative", "norm: {value: ", "norm: {value: -", "coefficients.norm.value"},
                    Bad{"value_misspelt", "norm: {value: ", "norm: {valu: ", "coefficients.norm.valu"},
                    Bad{"peak_of_other_unit", "unit: B/s", "unit: GB/s", "peaks.memory.unit"}),
    [](const auto& info) { return info.param.name; });

TEST(MachineFile, RefusesACoefficientThatIsFasterThanThePeak) {
  Machine m = test::machine();
  m[Coef::gemm_f32] = Coefficient::make(0.5 * m.floor_of(index_of(Coef::gemm_f32)), 0.1, {"x"});
  EXPECT_THROW(parse_machine(to_yaml(m), "m.yaml"), ConfigError);
}

// A number in the wrong unit is refused with its key and the probable intention.
TEST(MachineFile, RefusesWhatNoMachineHasWithTheUnit) {
  const std::string good =
      "name: m\n"
      "accelerator:\n"
      "  name: A100\n  vendor: nvidia\n  memory_bytes: 80000000000\n  processors: 108\n  power_w: 400\n"
      "  price_per_hour: 2\n  host_bandwidth: 32e9\n  reported_bytes: 85000000000\n"
      "  tiers:\n"
      "    host: {ranks: 8, bandwidth: 3e11, latency: 1.5e-6}\n"
      "    net: {bandwidth: 2.5e10, links: 1, latency: 6e-6}\n"
      "storage: {host_bandwidth: 5e9, filesystem_bandwidth: 4e11}\n"
      "peaks:\n"
      "  f32: {value: 1.95e13, unit: FLOP/s}\n"
      "  bf16: {value: 3.12e14, unit: FLOP/s}\n"
      "  memory: {value: 2e12, unit: B/s}\n"
      "coefficients:\n"
      "  norm: {value: 1e-12, unit: s/B, lower: 5e-13, upper: 2e-12}\n";
  ASSERT_NO_THROW(parse_machine(good, "m.yaml"));
  struct Slip {
    const char *from, *to, *key, *says;
  };
  for (const Slip& slip :
       {Slip{"bandwidth: 3e11", "bandwidth: 525", "accelerator.tiers.host.bandwidth",
             "is 525 B/s, which no machine has: plausible is 1e+07 to 1e+14 B/s -> did you mean 525e9?"},
        Slip{"bandwidth: 2.5e10", "bandwidth: 25", "accelerator.tiers.net.bandwidth", "did you mean 25e9?"},
        Slip{"latency: 1.5e-6", "latency: 1.5", "accelerator.tiers.host.latency", "1.5 s"},
        Slip{"memory_bytes: 80000000000", "memory_bytes: 80", "accelerator.memory_bytes",
             "did you mean 80e9?"},
        Slip{"reported_bytes: 85000000000", "reported_bytes: 85", "accelerator.reported_bytes",
             "did you mean 85e9?"},
        Slip{"host_bandwidth: 32e9", "host_bandwidth: 32", "accelerator.host_bandwidth",
             "did you mean 32e9?"},
        Slip{"power_w: 400", "power_w: 400000", "accelerator.power_w", "W"},
        Slip{"host_bandwidth: 5e9", "host_bandwidth: 5", "storage.host_bandwidth", "did you mean 5e9?"},
        Slip{"filesystem_bandwidth: 4e11", "filesystem_bandwidth: 400", "storage.filesystem_bandwidth",
             "B/s"},
        Slip{"value: 3.12e14", "value: 312", "peaks.bf16.value", "FLOP/s"},
        Slip{"value: 2e12", "value: 2", "peaks.memory.value", "B/s"},
        Slip{"value: 1e-12", "value: 1", "coefficients.norm.value", "s/B"}}) {
    std::string bad = good;
    bad.replace(bad.find(slip.from), std::string(slip.from).size(), slip.to);
    try {
      parse_machine(bad, "m.yaml");
      ADD_FAILURE() << "accepted: " << slip.to;
    } catch (const ConfigError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find(std::string("m.yaml: '") + slip.key + "'"), std::string::npos) << what;
      EXPECT_NE(what.find(slip.says), std::string::npos) << what;
    }
  }
}

TEST(MachineFile, KeepsVendorAndStorage) {
  Machine m = load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  m.storage = {3e9, 2e11, {"ior"}};
  const Machine back = parse_machine(to_yaml(m), "m.yaml");
  EXPECT_EQ(back.accelerator->vendor, "nvidia");
  EXPECT_EQ(back.accelerator->called, std::vector<std::string>{"A100"});
  EXPECT_EQ(back.accelerator->host_bandwidth, 32e9);
  EXPECT_EQ(back.accelerator->reported_bytes, m.accelerator->reported_bytes);
  EXPECT_FALSE(back.peaks.contains("fp4"));
  EXPECT_EQ(back.storage.host_bandwidth, 3e9);
  EXPECT_EQ(back.storage.filesystem_bandwidth, 2e11);
  EXPECT_EQ(back.storage.provenance, std::vector<std::string>{"ior"});
}

}  // namespace
}  // namespace isobar::perf
