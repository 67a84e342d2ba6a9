// A run with adapters: it starts from a base, leaves that unchanged, and resumes bit for bit; forecasts and
// exports of its checkpoint give the net that it validated.
#include <gtest/gtest.h>

#include <cmath>

#include "model/data/synthetic/synth.h"
#include "model/inference/weights/safetensors.h"
#include "model/inference/weights/trained_weights.h"
#include "tests/engine/command.h"
#include "tests/worst.h"

namespace isobar::engine {
namespace {

class LoraRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Folder;
    data::SyntheticOptions options;
    options.channels = 4, options.height = 32, options.width = 64, options.samples_per_year = 23;
    options.train_years = options.valid_years = 1;
    options.show_progress = false;
    data::make_synthetic(*shared_ / "set", options);
    const Ended base = train_command(data() + Words{"train.steps=6", "train.checkpoint_every=6",
                                                    "train.lr=3e-3", "run.out=" + base_run()});
    ASSERT_EQ(base.code, 0) << base.text;
    const Ended e = train(adapted_run(), {"train.steps=6"}, "1");
    ASSERT_EQ(e.code, 0) << e.text;
    EXPECT_NE(e.text.find("adapters of rank 4, times 2"), std::string::npos) << e.text;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static Words data() {
    return {"data.train=" + (*shared_ / "set/train"), "data.valid=" + (*shared_ / "set/valid"),
            "run.threads=1", "train.lr_schedule=constant"};
  }
  static Words adapters() {
    return {"train.init_from=" + base_run(),
            "train.lora_rank=4",
            "train.lora_alpha=8",
            "train.lora_targets=[blocks.*.attn, blocks.*.mlp.fc1]",
            "train.lr=1e-2",
            "train.checkpoint_every=3",
            "train.valid_every=3"};
  }
  static Ended train(const std::string& run, const Words& more, const char* ranks, const Words& words = {}) {
    return train_command(data() + adapters() + more + Words{"run.out=" + run},
                         Words{"--ranks", ranks} + words);
  }
  static std::string base_run() { return *shared_ / "base"; }
  static std::string adapted_run() { return *shared_ / "adapted"; }
  static inference::TensorFile weights(const std::string& run, int step, const char* file = "model") {
    return inference::read_safetensors(run + "/checkpoints/step-0000000" + std::to_string(step) + "/" + file +
                                       ".safetensors");
  }
  static std::map<int64_t, double> validations(const std::string& run) {
    std::map<int64_t, double> out;
    for (const json& e : read_run(run).events)
      if (e["event"] == "valid") out[e["step"]] = e["loss"];
    return out;
  }
  static inline Folder* shared_ = nullptr;
};

TEST_F(LoraRun, KeepsItsBaseToTheBitAndNoMomentsOfIt) {
  const inference::TensorFile base = weights(base_run(), 6), now = weights(adapted_run(), 6),
                              moments = weights(adapted_run(), 6, "optimizer");
  size_t adapters = 0;
  for (const auto& [name, t] : now.tensors) {
    const bool adapter = name.find(".lora_") != std::string::npos;
    adapters += adapter ? 1 : 0;
    EXPECT_EQ(moments.tensors.contains("exp_avg." + name), adapter) << name;
    EXPECT_EQ(moments.tensors.contains("exp_avg_sq." + name), adapter) << name;
    if (!adapter) EXPECT_EQ(t.values, base.tensors.at(name).values) << name;
  }
  EXPECT_EQ(now.tensors.size(), base.tensors.size() + adapters);
  EXPECT_EQ(adapters, 2u * (1 + 3 + 2 + 2));  // blocks; one A and three B for q, k, v; proj; fc1
  const std::vector<double>& b = now.tensors.at("blocks.0.attn.q.lora_B.weight").values;
  EXPECT_GT(*std::max_element(b.begin(), b.end()), 1e-3) << "it has learnt nothing";
}

// B starts as zeros, so the net equals its base.
TEST_F(LoraRun, BeginsAsItsBase) {
  const auto base = validations(base_run()), adapted = validations(adapted_run());
  EXPECT_NEAR(adapted.at(0) / base.at(6), 1, 1e-6);
  EXPECT_LT(adapted.at(6), base.at(6));
}

TEST_F(LoraRun, ResumesToTheBit) {
  const Folder dir;
  const std::string run = dir / "again";
  ASSERT_EQ(train(run, {"train.steps=3"}, "1").code, 0);
  const Ended e = train(run, {"train.steps=6"}, "1", {"--resume", run});
  ASSERT_EQ(e.code, 0) << e.text;
  const inference::TensorFile one = weights(adapted_run(), 6), two = weights(run, 6);
  for (const auto& [name, t] : one.tensors) EXPECT_EQ(t.values, two.tensors.at(name).values) << name;
}

TEST_F(LoraRun, TrainsAlikeOnSeveralRanksAndIn16Bits) {
  const Folder dir;
  struct Case {
    const char* ranks;
    Words words;
    double bound;
  };
  for (const Case& c :
       {Case{"4", {"layout.dp=2", "layout.tp=2", "policy.zero=3", "policy.micro_batch=2"}, 1e-5},
        Case{"2", {"layout.pp=2", "policy.micro_batch=4", "policy.zero=0"}, 1e-5},
        Case{"2", {"layout.dp=2", "policy.zero=1", "policy.amp=bf16", "policy.micro_batch=2"}, 3e-2}}) {
    const std::string run = dir / ("run" + std::to_string(seconds_now()));
    const Ended e = train(run, c.words + Words{"train.steps=6"}, c.ranks);
    ASSERT_EQ(e.code, 0) << e.text;
    for (const auto& [step, loss] : validations(adapted_run()))
      EXPECT_NEAR(validations(run).at(step) / loss, 1, c.bound) << step << c.words[0];
    // In 16-bit modes frozen matrices are stored in 16 bits.
    const double rounding = c.bound > 1e-3 ? 1.0 / 256 : 0;
    const inference::TensorFile base = weights(base_run(), 6), now = weights(run, 6);
    for (const auto& [name, t] : base.tensors)
      for (size_t i = 0; i < t.values.size(); ++i)
        ASSERT_NEAR(now.tensors.at(name).values[i], t.values[i], rounding * std::abs(t.values[i])) << name;
  }
}

TEST_F(LoraRun, MergedWeightsGiveTheAdaptersOutputs) {
  const Folder dir;
  const std::string merged_file = dir / "merged.safetensors";
  const double loss = validations(adapted_run()).at(6);
  const Ended forecast =
      Child({command(), "forecast", adapted_run(), "-o", dir / "f.nc", "--json", "--threads", "1"}).wait();
  ASSERT_EQ(forecast.code, 0) << forecast.text;
  EXPECT_NEAR(json::parse(forecast.text).at("loss").get<double>() / loss, 1, 1e-6);

  const Ended exported = Child({command(), "export", adapted_run(), "-o", merged_file, "--json"}).wait();
  ASSERT_EQ(exported.code, 0) << exported.text;
  EXPECT_EQ(json::parse(exported.text).at("merged"), 2 * (3 + 1 + 1));
  EXPECT_EQ(Child({command(), "export", adapted_run(), "-o", merged_file}).wait().code, 2);  // file exists
  const std::string run = dir / "from-merged";
  const Ended e = train_command(data() + Words{"train.init_from=" + merged_file, "train.steps=1",
                                               "train.valid_every=1", "run.out=" + run});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_NEAR(validations(run).at(0) / loss, 1, 1e-6);
}

TEST(LoraWeights, AreMergedAsInFloat64) {
  const std::string fixture = source_dir() + "/tests/fixtures/lora_fixture.safetensors";
  const inference::SafetensorsReader file(fixture);
  const inference::TrainedWeights weights(fixture, 2.0);
  double most = 0;
  int matrices = 0;
  for (const auto& [name, t] : file.tensors()) {
    const size_t at = name.find("/merged/");
    if (at == std::string::npos) continue;
    ++matrices;
    const std::vector<float> now = weights.merged(name.substr(0, at) + "/init/" + name.substr(at + 8));
    std::vector<float> wanted(now.size());
    file.read(t, 0, t.count, wanted.data());
    for (size_t i = 0; i < now.size(); ++i)
      most = worst(most, std::abs(static_cast<double>(now[i]) - static_cast<double>(wanted[i])));
  }
  EXPECT_GT(matrices, 20);
  EXPECT_LE(most, 2e-7);  // half an ulp below 4
}

TEST(LoraWeights, ABaseThatIsNoneIsRefused) {
  for (const auto& [from, says] : {std::pair{"nowhere", "holds no checkpoint"},
                                   {"tests/fixtures/vit_fixture.safetensors", "is missing"}}) {
    const std::string path = std::string(from) == "nowhere" ? from : source_dir() + "/" + from;
    const Ended e = train_command({"train.init_from=" + path, "train.steps=1"});
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
  }
}

}  // namespace
}  // namespace isobar::engine
