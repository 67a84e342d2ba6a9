// Moving average of weights (EMA) over a run: stored, resumed bit for bit, used by validation and forecasts;
// and the number of checkpoints that a run keeps.
#include <gtest/gtest.h>

#include <cmath>

#include "model/data/synthetic/synth.h"
#include "model/inference/weights/safetensors.h"
#include "tests/engine/command.h"
#include "tests/worst.h"

namespace isobar::engine {
namespace {

class AveragedRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Folder;
    data::SyntheticOptions options;
    options.channels = 4, options.height = 32, options.width = 64, options.samples_per_year = 23;
    options.train_years = options.valid_years = 1;
    options.show_progress = false;
    data::make_synthetic(*shared_ / "set", options);
    const Ended e = train(whole(), {"train.steps=6"}, "1");
    ASSERT_EQ(e.code, 0) << e.text;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static Ended train(const std::string& run, const Words& more, const char* ranks, const Words& words = {}) {
    return train_command(
        Words{"data.train=" + (*shared_ / "set/train"), "data.valid=" + (*shared_ / "set/valid"),
              "run.threads=1", "train.lr_schedule=constant", "train.lr=1e-3", "train.checkpoint_every=1",
              "train.valid_every=2", "train.ema=0.8", "run.out=" + run} +
            more,
        Words{"--ranks", ranks} + words);
  }
  static std::string whole() { return *shared_ / "whole"; }
  static inference::TensorFile file(const std::string& run, int step, const std::string& name) {
    return inference::read_safetensors(run + "/checkpoints/step-0000000" + std::to_string(step) + "/" + name +
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

// Checkpoints hold the weights of every step, from which the average can be recomputed.
TEST_F(AveragedRun, IsTheAverageOfItsSteps) {
  std::map<std::string, std::vector<double>> average;
  for (int step = 1; step <= 6; ++step)
    for (const inference::TensorFile files = file(whole(), step, "model");
         const auto& [name, t] : files.tensors) {
      std::vector<double>& x = average[name];
      // The average after the first step comes from its checkpoint: 0.8 first + 0.2 now.
      if (step == 1) x = file(whole(), 1, "average").tensors.at(name).values;
      for (size_t i = 0; step > 1 && i < x.size(); ++i) x[i] = 0.8 * x[i] + 0.2 * t.values[i];
    }
  double most = 0;
  for (const inference::TensorFile files = file(whole(), 6, "average"); const auto& [name, t] : files.tensors)
    for (size_t i = 0; i < t.values.size(); ++i)
      most = worst(most, std::abs(t.values[i] - average.at(name)[i]));
  EXPECT_LE(most, 1e-6);
  EXPECT_NE(file(whole(), 6, "average").tensors.at("head.weight").values,
            file(whole(), 6, "model").tensors.at("head.weight").values);
}

TEST_F(AveragedRun, ResumesToTheBitInAnotherLayoutToRounding) {
  const Folder dir;
  const std::string run = dir / "again", other = dir / "other";
  ASSERT_EQ(train(run, {"train.steps=3"}, "1").code, 0);
  fs::copy(run, other, fs::copy_options::recursive);
  const Ended e = train(run, {"train.steps=6"}, "1", {"--resume", run});
  ASSERT_EQ(e.code, 0) << e.text;
  for (const char* name : {"model", "average"})
    for (const inference::TensorFile files = file(whole(), 6, name); const auto& [tensor, t] : files.tensors)
      EXPECT_EQ(t.values, file(run, 6, name).tensors.at(tensor).values) << name << tensor;
  const Ended cut = train(other, {"train.steps=6", "layout.dp=2", "policy.zero=3", "policy.micro_batch=2"},
                          "2", {"--resume", other});
  ASSERT_EQ(cut.code, 0) << cut.text;
  double most = 0;
  const inference::TensorFile averages = file(whole(), 6, "average"), others = file(other, 6, "average");
  for (const auto& [tensor, t] : averages.tensors) {
    if (tensor.ends_with(".k.bias")) continue;  // its gradient is rounding noise
    const std::vector<double>& now = others.tensors.at(tensor).values;
    for (size_t i = 0; i < now.size(); ++i) most = worst(most, std::abs(now[i] - t.values[i]));
  }
  EXPECT_LE(most, 1e-6);
  const Ended none = train(run, {"train.steps=7", "train.ema=0"}, "1", {"--resume", run});
  EXPECT_EQ(none.code, 2) << none.text;
  EXPECT_NE(none.text.find("'train.ema'"), std::string::npos) << none.text;
}

// Validation with the average agrees with a forecast from its checkpoint, and training is unaffected.
TEST_F(AveragedRun, IsWhatIsValidatedIfAsked) {
  const Folder dir;
  const std::string run = dir / "run", sharded = dir / "sharded";
  const Words asked = {"train.steps=6", "train.ema_valid=true"};
  ASSERT_EQ(train(run, asked, "1").code, 0);
  for (const inference::TensorFile files = file(whole(), 6, "model"); const auto& [tensor, t] : files.tensors)
    EXPECT_EQ(t.values, file(run, 6, "model").tensors.at(tensor).values) << tensor;
  EXPECT_NE(validations(run).at(6), validations(whole()).at(6));
  const Ended forecast =
      Child({command(), "forecast", run, "-o", dir / "f.nc", "--json", "--threads", "1"}).wait();
  ASSERT_EQ(forecast.code, 0) << forecast.text;
  EXPECT_NEAR(json::parse(forecast.text).at("loss").get<double>() / validations(run).at(6), 1, 1e-6);
  ASSERT_EQ(
      train(sharded, asked + Words{"layout.dp=2", "policy.zero=1", "policy.amp=bf16", "policy.micro_batch=2"},
            "2")
          .code,
      0);
  for (const auto& [step, loss] : validations(run))
    EXPECT_NEAR(validations(sharded).at(step) / loss, 1, 1e-2);
}

// Loss weights by name and intensity come from the data's channels in a run, and from the checkpoint's in a
// forecast
TEST_F(AveragedRun, IsForecastWithTheWeightsOfItsLoss) {
  const Folder dir;
  const std::string run = dir / "run";
  const Words words = {"train.steps=2", "train.loss=mae", "train.variable_weights=[t2m=3, u10=0.5]",
                       "train.intensity=['t2m>280=4']", "train.loss_weighting=mean"};
  const Ended e = train(run, words, "1");
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_NE(e.text.find("t2m 2.18 (x 4 above"), std::string::npos) << e.text;
  const Ended forecast =
      Child({command(), "forecast", run, "-o", dir / "f.nc", "--json", "--threads", "1"}).wait();
  ASSERT_EQ(forecast.code, 0) << forecast.text;
  EXPECT_NEAR(json::parse(forecast.text).at("loss").get<double>() / validations(run).at(2), 1, 1e-6);
  EXPECT_NE(train(dir / "plain", {"train.steps=2", "train.loss=mae"}, "1").text, e.text);
  const Ended wrong =
      train(dir / "wrong", {"train.steps=2", "train.loss=mae", "train.variable_weights=[q=3]"}, "1");
  EXPECT_EQ(wrong.code, 2) << wrong.text;
  EXPECT_NE(wrong.text.find("'q' is no variable or channel"), std::string::npos) << wrong.text;
}

TEST_F(AveragedRun, KeepsItsLastCheckpointsAndTheBest) {
  const Folder dir;
  const std::string run = dir / "run";
  const Ended e =
      train(run,
            {"train.steps=6", "train.checkpoint_keep=2", "train.checkpoint_best=true", "train.valid_every=1",
             "train.lr_schedule=step", "train.lr_step_size=3", "train.lr_gamma=0.5"},
            "1");
  ASSERT_EQ(e.code, 0) << e.text;
  const std::string best = fs::read_symlink(run + "/checkpoints/best").string();
  std::vector<std::string> kept;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints"))
    if (!entry.is_symlink()) kept.push_back(entry.path().filename());
  std::sort(kept.begin(), kept.end());
  std::vector<std::string> wanted = {"step-00000005", "step-00000006"};
  if (best < wanted[0]) wanted.insert(wanted.begin(), best);
  EXPECT_EQ(kept, wanted);
  EXPECT_EQ(Child({command(), "export", run + "/checkpoints/best", "-o", dir / "w.safetensors"}).wait().code,
            0);
}

}  // namespace
}  // namespace isobar::engine
