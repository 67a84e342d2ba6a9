// Every number of a configuration may be typed with a few digits too many: whatever it is, `isobar plan` ends
// soon, with a plan or with the one error that names the key.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/child.h"
#include "model/nets/build.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

using nlohmann::json;

/// The error of `isobar plan` on a configuration; "" where it is planned.
std::string planned(const json& j) {
  return in_child({.memory_bytes = int64_t{3} << 30, .cpu_s = 10}, [&](const ChildProgress&) -> std::string {
    const RunSpec spec = run_spec_from_json(j, "huge.yaml");
    validate(spec);
    nets::build_plan(spec, 0, no_workspace);
    nets::check_world(spec, no_workspace);
    return "";
  });
}

void expect_an_end(const json& j, const std::string& section, const std::string& key) {
  SCOPED_TRACE(section + "." + key + " = " + j[section][key].dump());
  try {
    planned(j);
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_NE(what.find(" -> "), std::string::npos) << "says no way out: " << what;
  } catch (const std::exception& e) {  // a raw exception, a signal, the limit on time or memory
    ADD_FAILURE() << e.what();
  }
}

const std::vector<json> kIntegers = {int64_t{1} << 60,
                                     int64_t{1} << 31,
                                     std::numeric_limits<int64_t>::max(),
                                     -1,
                                     0,
                                     std::numeric_limits<uint64_t>::max()};
const std::vector<json> kNumbers = {1e308, 1e-320, -1.0, 0.0};

/// `only_net`: of the keys of other sections one in eight, by chance.
void walk(const RunSpec& spec, bool only_net) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(spec.file + ", seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const json j = to_json(spec);
  ASSERT_EQ(planned(j), "");
  int64_t keys = 0;
  for (const auto& [section, values] : j.items()) {
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items()) {
      const bool list = value.is_array() && !value.empty() && value[0].is_number();
      if (!list && !value.is_number()) continue;
      if (only_net && section != "net" && random() % 8 != 0) continue;
      const json& number = list ? value[0] : value;
      for (const json& x : number.is_number_integer() ? kIntegers : kNumbers) {
        json changed = j;
        (list ? changed[section][key][0] : changed[section][key]) = x;
        expect_an_end(changed, section, key);
      }
      ++keys;
    }
  }
  EXPECT_GT(keys, 5);
}

TEST(HugeValues, EachKeyOfAVit) {
  walk(spec_of("vit-tiny"), false);
}
TEST(HugeValues, EachKeyOfAUnet) {
  walk(spec_of("unet-tiny"), true);
}
TEST(HugeValues, EachKeyOfAnAurora) {
  walk(spec_of("aurora-tiny"), true);
}
TEST(HugeValues, EachKeyOfASwin) {
  walk(spec_of("swin-tiny"), true);
}
TEST(HugeValues, EachKeyOfAGraphcast) {
  walk(spec_of("graphcast-tiny"), true);
}
TEST(HugeValues, EachKeyOfARegionalGnn) {
  walk(spec_of("regional-gnn-tiny"), true);
}
TEST(HugeValues, EachKeyOfAnMlp) {
  walk(spec_of("mlp-emulator"), true);
}
TEST(HugeValues, EachKeyOfALanguageModel) {
  walk(spec_of("llama3-8b", {"net.depth=2", "net.embed_dim=128", "net.num_heads=4", "net.num_kv_heads=4",
                             "net.ffn_dim=256", "net.vocab_size=512", "net.seq_length=64", "layout.dp=1",
                             "layout.tp=1", "layout.pp=1", "train.global_batch=4"}),
       true);
}

}  // namespace
}  // namespace isobar::plan
