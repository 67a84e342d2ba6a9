// Names of other software: every row gives keys that exist, with values that they take.
#include "model/base/names/other_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/text/yaml.h"

namespace isobar {
namespace {

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// A value that a row takes: its first one, or one of the type of the key that it gives
std::string example_of(const OtherName& row) {
  for (const std::string& value : split_words(row.values))
    if (value == "(flag)")
      return "";
    else if (value == "(off)")
      return "false";
    else
      return value.starts_with("*") ? "a" + value.substr(1) : value;
  const std::vector<std::string> gives = split_words(row.gives);
  if (std::string(row.gives).find("*2") != std::string::npos)
    return std::string(row.gives).starts_with("net") ? "[8, 16]" : "[0.9, 0.95]";
  const std::string key = gives.empty() ? "" : gives[0].substr(0, gives[0].find('='));
  for (const SpecKey& k : spec_keys()) {
    if (k.key != key || k.type == "int" || k.type == "list of int") continue;
    if (k.values.find('|') != std::string::npos) return split_words(k.values)[0];
    return k.type == "float" ? "0.5" : k.type == "bool" ? "true" : k.type == "list of text" ? "[a]" : "tp-dp";
  }
  return "2";
}

void expect_taken(const std::string& assignment) {
  const std::string key = assignment.substr(0, assignment.find('='));
  const std::vector<std::string> kinds = net_kinds_with(key);
  ASSERT_FALSE(kinds.empty()) << key << " is no key";
  nlohmann::json j;
  apply_override(j, assignment);
  j["net"]["kind"] = kinds[0];
  try {
    const RunSpec s = run_spec_from_json(j, "row");
    (void)s;
  } catch (const ConfigError& e) {
    ADD_FAILURE() << assignment << ": " << e.what();
  }
}

TEST(OtherNames, EveryRowGivesKeysThatTakeItsValue) {
  for (const OtherName& row : other_names()) {
    const std::string value = example_of(row);
    for (const std::string& name : split_words(row.names)) {
      const auto found = named_elsewhere("--" + name, value);
      ASSERT_TRUE(found) << name;
      EXPECT_TRUE(!found->gives.empty() || !found->note.empty()) << name << " says nothing";
      for (const std::string& one : found->gives)
        if (one[0] != '@' && one[0] != '-') expect_taken(one);
    }
  }
}

TEST(OtherNames, NoRowIsHiddenByOneBeforeIt) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const OtherName& row : other_names())
    for (const std::string& name : split_words(row.names)) {
      // A row for any value does not stand before one for certain values; a flag has no value.
      const bool flags_only = !std::string(row.values).empty() && std::string(row.values)[0] == '(';
      const bool hidden = seen.contains(std::make_pair(name, std::string())) && !flags_only;
      EXPECT_FALSE(hidden) << name << " " << row.values;
      std::vector<std::string> values = split_words(row.values);
      if (values.empty()) values.emplace_back("");
      for (const std::string& value : values)
        EXPECT_TRUE(seen.insert({name, value}).second) << name << " has " << value << " twice";
    }
  std::set<std::string> names;
  for (const auto& one : seen) names.insert(one.first);
  EXPECT_GE(names.size(), 150u);
}

TEST(OtherNames, ValuesAreTranslated) {
  const auto gives = [](const std::string& name, const std::string& value) {
    const auto found = named_elsewhere(name, value);
    return found ? found->gives : std::vector<std::string>{"unknown"};
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(gives("precision", "16-mixed"), Words{"policy.amp=fp16"});
  EXPECT_EQ(gives("trainer.precision", "BF16-mixed"), Words{"policy.amp=bf16"});
  EXPECT_EQ(gives("--amp_mode", "none"), Words{"policy.amp=tf32"});
  EXPECT_EQ(gives("--tensor-model-parallel-size", "8"), Words{"layout.tp=8"});
  EXPECT_EQ(gives("strategy", "deepspeed_stage_3_offload"),
            (Words{"policy.zero=3", "policy.offload_optimizer=true", "policy.offload_parameters=true"}));
  EXPECT_EQ(gives("--val-ratio", ".15"), Words{"data.train_fraction=0.85"});
  EXPECT_EQ(gives("img_size", "[360, 720]"), (Words{"net.img_height=360", "net.img_width=720"}));
  EXPECT_EQ(gives("patch_sizes", "8"), Words{"unknown"});
  EXPECT_TRUE(named_elsewhere("accelerator", "tpu")->refused);
}

TEST(OtherNames, AnUnknownKeyOfARunIsAnsweredByOurs) {
  const auto error_of = [](const char* yaml) {
    try {
      (void)run_spec_from_json(parse_yaml(yaml, "run.yaml"), "run.yaml");
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(error_of("train: {batch_size: 32}").find("here it is train.global_batch: 32"), std::string::npos);
  EXPECT_EQ(error_of("train: {batch_size: 32}").find("patch_size"), std::string::npos);
  EXPECT_NE(error_of("precision: 16-mixed").find("here it is policy.amp: fp16"), std::string::npos);
  EXPECT_NE(error_of("amp_mode: none").find("TF32 on an A100"), std::string::npos);
  EXPECT_NE(error_of("optimizer: {learning_rate: 1e-3}").find("learning_rate: here it is train.lr: 0.001"),
            std::string::npos);
  EXPECT_NE(error_of("trainer: {strategy: deepspeed_stage_2_offload}")
                .find("policy.zero: 2, policy.offload_optimizer: true"),
            std::string::npos);
  EXPECT_NE(error_of("train: {lr_scheduel: cosine}").find("did you mean 'train.lr_schedule'"),
            std::string::npos);
}

}  // namespace
}  // namespace isobar
