// Weights of other programs as train.init_from takes them (tests/fixtures/cases): read by name in any
// floating-point type, refused by the tensor that is wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/system/files.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/safetensors.h"
#include "model/nets/build.h"
#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

std::string case_file(const std::string& name) {
  return source_dir() + "/tests/fixtures/cases/" + name;
}

/// All parameters of the cases' net, as they start from a file.
std::vector<float> start_from(const std::string& file, plan::Plan* plan) {
  *plan = nets::build_plan(load_run_spec(case_file("weights_mlp.yaml")), 0, {});
  std::vector<float> params(static_cast<size_t>(plan->params_all.count), NAN);
  inference::load_first_weights(file, *plan, params.data(), nullptr, {});
  return params;
}

std::string refusal_from(const std::string& file) {
  plan::Plan plan;
  try {
    start_from(file, &plan);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "nothing was refused";
}

void says(const std::string& error, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(error.find(word), std::string::npos) << word << " is not in: " << error;
}

/// Bytes behind the header, by which the test knows what stands in the file.
std::string data_of(const std::string& file) {
  const std::string all = text_of(file);
  uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  return all.substr(8 + length);
}

TEST(FirstWeights, Bf16IsRead) {
  plan::Plan plan;
  const std::string file = case_file("weights_bf16.safetensors");
  const std::vector<float> params = start_from(file, &plan);
  const std::string data = data_of(file);
  size_t at = 0;  // names stand in the file in their order
  for (const char* name : {"layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight",
                           "layers.2.bias", "layers.2.weight"}) {
    const auto p = std::find_if(plan.params.begin(), plan.params.end(),
                                [&](const plan::Param& x) { return x.name == name; });
    ASSERT_NE(p, plan.params.end()) << name;
    for (int64_t i = 0; i < p->count; ++i, at += 2) {
      uint16_t bits = 0;
      std::memcpy(&bits, data.data() + at, 2);
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float expected = 0;
      std::memcpy(&expected, &wide, 4);
      EXPECT_EQ(params[static_cast<size_t>(p->offset + i)], expected) << name << " " << i;
    }
  }
  EXPECT_EQ(at, data.size());
}

TEST(FirstWeights, ACounterIsPassedOver) {
  plan::Plan plan;
  const std::string file = case_file("weights_with_a_counter.safetensors");
  const std::vector<float> params = start_from(file, &plan);
  const inference::TensorFile whole = inference::read_safetensors(file);
  for (const plan::Param& p : plan.params)
    for (int64_t i = 0; i < p.count; ++i)
      EXPECT_EQ(params[static_cast<size_t>(p.offset + i)],
                whole.tensors.at(p.name).values[static_cast<size_t>(i)]);
  EXPECT_EQ(whole.tensors.at("num_batches_tracked").values.size(), 1u);
}

TEST(FirstWeights, AWeightThatTheNetLacksIsRefused) {
  const Folder dir;
  const inference::TensorFile good =
      inference::read_safetensors(case_file("weights_with_a_counter.safetensors"));
  for (const std::string more : {"layers.3.weight", "layers.1.lora_A.weight"}) {
    std::vector<plan::Tensor> tensors = {{more, {2}}};
    for (const auto& [name, t] : good.tensors) tensors.push_back({name, t.shape});
    const std::string path = dir / "more.safetensors";
    inference::create_safetensors(path, tensors, {});
    says(refusal_from(path), {"more.safetensors", more.c_str(), "nothing that this net has",
                              more.find("lora") == std::string::npos ? "leave the tensor out" : "export"});
  }
}

TEST(FirstWeights, OfOtherProgramsAreToldToBeImported) {
  says(refusal_from(source_dir() + "/tests/fixtures/transformers/gpt2/model.safetensors"),
       {"model.safetensors", "layers.0.", "isobar import"});
}

TEST(FirstWeights, TensorsThatOverlapAreRefused) {
  says(refusal_from(case_file("weights_overlap.safetensors")),
       {"weights_overlap.safetensors", "layers.0.bias", "layers.1.bias", "they overlap"});
}

TEST(FirstWeights, ANumberThatIsNoneNamesItsWeight) {
  const Folder dir;
  const std::string good = text_of(case_file("weights_with_a_counter.safetensors"));
  uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  for (const float wrong : {NAN, INFINITY, -INFINITY}) {
    std::string bad = good;
    std::memcpy(bad.data() + 8 + length + 192 + 4 * 5, &wrong, 4);  // element 5 of layers.1.weight
    std::ofstream(dir / "bad.safetensors", std::ios::binary) << bad;
    says(refusal_from(dir / "bad.safetensors"),
         {"bad.safetensors", "'layers.1.weight'", std::isnan(wrong) ? "NaN" : "infinity", "element 5 of 64"});
  }
}

// The command: trains from it, or ends with 2 and one line.
TEST(FirstWeights, TheCommandTrainsFromThemOrSaysWhyNot) {
  const Folder dir;
  const auto train = [&](const std::string& name, const Words& more = {}) {
    return Child(Words{build_dir() + "/isobar", "train", case_file("weights_mlp.yaml"), "--set",
                       "train.init_from=" + case_file(name), "--set", "run.out=" + (dir / name)} +
                 more)
        .wait();
  };
  const Ended bf16 = train("weights_bf16.safetensors"), counter = train("weights_with_a_counter.safetensors");
  EXPECT_EQ(bf16.code, 0) << bf16.text;
  EXPECT_EQ(counter.code, 0) << counter.text;
  const Ended overlap = train("weights_overlap.safetensors");
  EXPECT_EQ(overlap.code, 2);
  const std::string error = overlap.text.substr(overlap.text.find("\nisobar: ") + 1);
  EXPECT_EQ(error.find('\n'), error.size() - 1) << overlap.text;
  says(error, {"layers.1.bias", "overlap"});
}

}  // namespace
}  // namespace isobar::engine
