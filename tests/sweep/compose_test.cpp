// Sweeps from the command line, zipped keys, bounds, merge keys: a file plus words equals the sweep that one
// file would define.
#include "bench/sweep/compose.h"

#include <set>

#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "support.h"

namespace isobar::sweep {
namespace {

class Compose : public SweepTest {
 protected:
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  // Ids of all trials: equal sets are equal sweeps.
  static std::set<std::string> ids(const SweepSpec& s) {
    std::set<std::string> out;
    for (const Trial& t : expand(s).trials) out.insert(t.id);
    return out;
  }
  std::string refusal(const std::string& file, const std::vector<std::string>& words) const {
    try {
      expand(load_sweep_spec(path(file), words));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "(accepted)";
  }
};

TEST_F(Compose, ARunAndWordsAreASweep) {
  const SweepSpec file =
      sweep("set: {train.lr: 0.5}\naxes: {gpus: [1, 2], policy.amp: [none, bf16]}\nrepetitions: 3");
  const SweepSpec words = load_sweep_spec(
      path("base.yaml"), {"gpus=1,2", "amp=none,bf16", "train.lr=0.5", "steps=4", "repetitions=3"});
  EXPECT_EQ(ids(words).size(), 12u);
  EXPECT_EQ(ids(words), ids(file));
}

TEST_F(Compose, WordsReplaceWhatTheFileSaysOfTheirKeys) {
  sweep("set: {layout: {tp: 2}, train.lr: 0.5}\naxes: {policy: {amp: [none, bf16]}, gpus: [2, 4]}");
  const auto with = [&](const std::vector<std::string>& words) {
    return ids(load_sweep_spec(path("sweep.yaml"), words));
  };
  // An axis becomes a setting and a setting an axis, in any spelling and nesting
  EXPECT_EQ(with({"amp=bf16", "layout.tp=1,2"}),
            ids(sweep("set: {policy.amp: bf16, train.lr: 0.5}\naxes: {tp: [1, 2], gpus: [2, 4]}")));
  sweep("axes: {gpus: [4], tp: [1]}");
  EXPECT_EQ(with({"tp=any"}), ids(sweep("axes: {gpus: [4], tp: any}")));
  sweep("axes: {amp: [none, bf16]}");
  EXPECT_EQ(with({"weak_scaling=1,2"}), ids(sweep("weak_scaling: [1, 2]\naxes: {amp: [none, bf16]}")));
}

TEST_F(Compose, WhatIsPrintedIsTheSweep) {
  write("sub/base.yaml", "net: {embed_dim: 64, depth: 1}\ntrain: {global_batch: 8}\n");
  const std::vector<std::string> words = {
      "gpus=1,2",          "amp=none,bf16",      "data.variables=[a, b],[\"12\", c]",
      "net.in_channels=2", "net.out_channels=2", "repetitions=2"};
  const std::string text = sweep_file_text(compose_sweep(path("sub/base.yaml"), words), path("sub/base.yaml"),
                                           scratch_.path().string());
  write("printed.yaml", text);
  EXPECT_NE(text.find("base: sub/base.yaml"), std::string::npos) << text;
  EXPECT_EQ(ids(load_sweep_spec(path("printed.yaml"))), ids(load_sweep_spec(path("sub/base.yaml"), words)));
  EXPECT_EQ(ids(load_sweep_spec(path("printed.yaml"))).size(), 16u);
}

TEST_F(Compose, WordsThatMeanNothingAreNamed) {
  sweep("axes: {gpus: [1]}");
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"tp", {"isobar sweep", "'tp'", "KEY=VALUES"}},
      {"=1", {"KEY=VALUES"}},
      {"tp=", {"gives no value", "tp=1,2,4"}},
      {"tp=[1", {"isobar sweep, tp", "YAML"}},
      {"policy.ampp=none", {"policy.ampp", "policy.amp"}},
      {"speed=2", {"speed", "not a key of a run"}},
      {"tp=1,1", {"layout.tp", "twice"}},
      {"repetitions=1,2", {"repetitions", "whole number"}},
      {"layout.dp=2", {"layout.dp", "gpus"}},
  };
  for (const auto& [word, parts] : cases)
    for (const std::string& part : parts)
      EXPECT_NE(refusal("sweep.yaml", {word}).find(part), std::string::npos)
          << word << "\n  said: " << refusal("sweep.yaml", {word}) << "\n  without: " << part;
  EXPECT_NE(refusal("base.yaml", {}).find("is a run configuration"), std::string::npos);
  EXPECT_NE(refusal("sweep.yaml", {"tp=1,2", "layout.tp=4"}).find("second time"), std::string::npos);
}

TEST_F(Compose, ZippedKeysGoInStepAndAreCrossedWithTheRest) {
  const Matrix m =
      expand(sweep("zip: [{gpus: [1, 2, 4], policy.micro_batch: [8, 4, 2]}]\naxes: {amp: [none, bf16]}"));
  ASSERT_EQ(m.trials.size(), 6u);
  for (const Trial& t : m.trials) EXPECT_EQ(t.ranks() * t.spec.policy.micro_batch, 8);
  EXPECT_EQ(expand(sweep("zip: [{gpus: [1, 2], policy.micro_batch: [2, 1]}, {amp: [none, bf16], "
                         "train.lr: [0.1, 0.2]}]"))
                .trials.size(),
            4u);
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"zip: [{gpus: [1, 2], policy.micro_batch: [1]}]", "as many values"},
      {"zip: [{gpus: [1, 2]}]", "nothing to go in step"},
      {"zip: {gpus: [1, 2]}", "not a list of maps"},
      {"zip: [{gpus: [1, 2], tp: any}]", "is any"},
      {"zip: [{gpus: [1, 2], amp: [none, bf16]}]\naxes: {amp: [none]}", "gives policy.amp"},
      {"zip: [{gpus: [1, 2], amp: [none, bf16]}]\nset: {policy.amp: none}", "gives policy.amp"}};
  for (const auto& [text, part] : refused) {
    write("bad.yaml", "base: base.yaml\n" + text);
    EXPECT_NE(refusal("bad.yaml", {}).find(part), std::string::npos) << refusal("bad.yaml", {});
  }
}

TEST_F(Compose, ExclusionsTakeBoundsAndWorldSizesAreAnyWithinConstraints) {
  const Matrix m =
      expand(sweep("axes: {gpus: [1, 2, 4, 8], amp: [none, bf16]}\nexclude: [{gpus: \">= 4\", amp: bf16}]"));
  EXPECT_EQ(m.excluded, 2);
  for (const Trial& t : m.trials) EXPECT_TRUE(t.ranks() < 4 || t.spec.policy.amp == Amp::none);
  std::set<int64_t> sizes;
  for (const Trial& t : expand(sweep("axes: {gpus: any}\nconstraints: {min_ranks: 2, max_ranks: 8}")).trials)
    sizes.insert(t.ranks());
  EXPECT_EQ(sizes, (std::set<int64_t>{2, 4, 8}));  // no other size divides 8 samples
  write("bad.yaml", "base: base.yaml\naxes: {gpus: any}\n");
  EXPECT_NE(refusal("bad.yaml", {}).find("constraints: {max_ranks: 8}"), std::string::npos);
  write("bad.yaml", "base: base.yaml\naxes: {gpus: [1]}\nexclude: [{policy.amp: \"> 4\"}]\n");
  EXPECT_NE(refusal("bad.yaml", {}).find("policy.amp"), std::string::npos) << refusal("bad.yaml", {});
}

TEST(Yaml, MergeKeysFillWhatTheMapDoesNotGive) {
  const nlohmann::json j = parse_yaml(
      "a: &a {x: 1, y: {u: 1}}\nb: &b {y: 2, z: 3}\nc: {<<: *a, x: 5}\nd: {<<: [*b, *a], w: 4}\n", "x");
  EXPECT_EQ(j["c"], nlohmann::json::parse(R"({"x": 5, "y": {"u": 1}})"));
  EXPECT_EQ(j["d"], nlohmann::json::parse(R"({"x": 1, "y": 2, "z": 3, "w": 4})"));
  EXPECT_THROW(parse_yaml("a: {<<: 1}", "x"), ConfigError);
  EXPECT_THROW(parse_yaml("a: &a {x: 1}\nb: {<<: [[*a]]}", "x"), ConfigError);
}

TEST(Yaml, WhatIsWrittenReadsBack) {
  const nlohmann::json j = {{"a", {1, 2.5, "x y", "12", "true", "", "a: b", "#", "null", "1e3", "-"}},
                            {"b", {{"c", nullptr}, {"d", true}, {"e", {{{"f", 1}}, {{"g", "h\nk"}}}}}},
                            {"empty", nlohmann::json::object()},
                            {"none", nlohmann::json::array()}};
  EXPECT_EQ(parse_yaml(to_yaml(j), "x"), j) << to_yaml(j);
}

}  // namespace
}  // namespace isobar::sweep
