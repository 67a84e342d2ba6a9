// Runs that end before train.steps because of the validation loss or the Jacobian: what they report, save and
// resume.
#include <gtest/gtest.h>

#include <cmath>

#include "model/inference/early_stop.h"
#include "tests/engine/layouts.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

// flux as a smooth, noise-free function of two columns
void write_table(const fs::path& path, int rows) {
  std::ofstream out(path);
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  out << "a,b,flux,heat\n";
  for (int i = 0; i < rows; ++i) {
    const double a = normal(random), b = normal(random);
    out << a << "," << b << "," << std::sin(a) + 0.3 * b << "," << a - b * std::tanh(a) << "\n";
  }
}

TestNet net_on(const std::string& table, const Words& more) {
  TestNet net{source_dir() + "/configs/models/mlp-emulator.yaml",
              {"data.train=" + table, "data.inputs=[a,b]", "data.targets=[flux,heat]", "net.in_features=2",
               "net.out_features=2", "net.hidden=[16,16,16]", "net.activation=tanh",
               "data.train_fraction=0.75", "train.global_batch=96", "train.steps=60", "train.lr=1e-2",
               "train.lr_schedule=constant", "train.valid_every=10", "run.threads=1", "run.hang_timeout=60"}};
  net.set.insert(net.set.end(), more.begin(), more.end());
  return net;
}

std::vector<json> validations(const WrittenRun& run) {
  std::vector<json> out;
  for (const json& e : run.events)
    if (e["event"] == "valid") out.push_back(e);
  return out;
}

TEST(EarlyStop, CountsValidationsWithoutALowerLoss) {
  TrainSpec t;
  t.early_stopping_patience = 2;
  t.min_steps = 40;
  inference::EarlyStop e;
  EXPECT_TRUE(e.observe(t, 10, 1.0, std::nullopt));
  EXPECT_FALSE(e.observe(t, 20, 1.0, std::nullopt));  // equal is not lower
  EXPECT_TRUE(e.observe(t, 30, 0.9, std::nullopt));
  EXPECT_FALSE(e.observe(t, 40, 2.0, std::nullopt));
  EXPECT_FALSE(e.observe(t, 50, 0.95, std::nullopt));
  EXPECT_EQ(e.reason, "");
  EXPECT_FALSE(e.observe(t, 60, 0.91, std::nullopt));  // the third in a row
  EXPECT_NE(e.reason.find("has not fallen below 0.9 for 3 validations"), std::string::npos) << e.reason;
}

TEST(EarlyStop, WatchesTheNormOverAWindow) {
  TrainSpec t;
  t.jacobian_window = 3, t.jacobian_tolerance = 0.1;
  inference::EarlyStop e;
  for (const double norm : {1.0, 2.0, 2.05}) e.observe(t, 10, 1, norm);
  EXPECT_EQ(e.reason, "");  // the first differs by 50 %
  e.observe(t, 20, 1, 1.9);
  EXPECT_NE(e.reason.find("norm of the Jacobian"), std::string::npos) << e.reason;
  t.min_steps = 100;
  e.observe(t, 30, 1, 1.95);
  EXPECT_EQ(e.reason, "");
}

// Every layout tracks the same Jacobian as one rank, although weights are partitioned.
TEST(EarlyStop, JacobiansAreTrackedUnderEveryLayoutAlike) {
  const Folder dir;
  write_table(dir / "t.csv", 600);
  const TestNet net = net_on(dir / "t.csv", {"train.jacobian_samples=20", "train.checkpoint_every=60"});
  const auto one = validations(trained_to(dir / "one", {}, 1, 60, {}, net).record);
  ASSERT_EQ(one.size(), 7u);  // before the first step, and six more
  int n = 0;
  for (const auto& [ranks, layout] : {std::pair<int64_t, Words>{2, {"layout.dp=2", "policy.zero=3"}},
                                      {2, {"layout.pp=2", "policy.micro_batch=24"}},
                                      {4, {"layout.dp=2", "layout.pp=2", "policy.zero=2"}}}) {
    const auto other = validations(trained_to(dir / std::to_string(++n), layout, ranks, 60, {}, net).record);
    ASSERT_EQ(other.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) {
      const json &a = one[i].at("jacobian"), &b = other[i].at("jacobian");
      EXPECT_EQ(a.at("samples"), 20);
      // With dp rank 0 sees every other validation sample, so only layouts without dp see the same ones.
      if (layout[0] == "layout.dp=2") continue;
      for (const char* key : {"frobenius", "mean", "max", "std", "condition"})
        EXPECT_NEAR(b.at(key).get<double>() / a.at(key).get<double>(), 1, 1e-4) << key << " " << layout[0];
    }
  }
  EXPECT_GT(one.back().at("jacobian").at("frobenius").get<double>(),
            1.2 * one.front().at("jacobian").at("frobenius").get<double>())
      << "nothing was learnt: nothing is tested";
}

TEST(EarlyStop, EndsTheRunSaysWhyKeepsTheBestAndIsNotGoneOnWith) {
  const Folder dir;
  write_table(dir / "t.csv", 600);
  const std::string run = dir / "run";
  Words words = {"run.out=" + run,
                 "train.jacobian_samples=10",
                 "train.jacobian_window=2",
                 "train.jacobian_tolerance=0.9",
                 "train.min_steps=30",
                 "train.checkpoint_every=1000",
                 "train.checkpoint_best=true"};
  const TestNet net = net_on(dir / "t.csv", {});
  words.insert(words.begin(), net.set.begin(), net.set.end());
  const auto call = [&](const Words& set, const Words& more) {
    return Child(train_words(net.config, set, more)).wait();
  };
  const Ended e = call(words, {});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_NE(e.text.find("stopped after step 30: the norm of the Jacobian"), std::string::npos) << e.text;
  const json end = read_run(run).end;
  EXPECT_EQ(end.at("steps"), 30);
  EXPECT_EQ(end.at("status"), "ok");
  EXPECT_NE(end.at("stopped").get<std::string>().find("norm of the Jacobian"), std::string::npos);
  EXPECT_EQ(end.at("checkpoint"), run + "/checkpoints/step-00000030");  // although 1000 is not reached
  EXPECT_EQ(fs::canonical(fs::path(run) / "checkpoints/best").filename(), "step-00000030");
  EXPECT_TRUE(fs::exists(fs::path(run) / "checkpoints/step-00000010/state.json"));

  const Ended again = call(words, {"--resume", run});
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.text.find("the training has ended: the norm"), std::string::npos) << again.text;
  Words on = words;
  on.push_back("train.jacobian_window=0"), on.push_back("train.min_steps=0");
  const Ended longer = call(on, {"--resume", run});
  ASSERT_EQ(longer.code, 0) << longer.text;
  EXPECT_EQ(read_run(run).end.at("steps"), 60);
  EXPECT_FALSE(read_run(run).end.contains("stopped"));
}

// A killed and resumed run ends where an uninterrupted one does.
TEST(EarlyStop, AResumedRunRemembersWhatItHasSeen) {
  const Folder dir;
  write_table(dir / "t.csv", 600);
  const Words noisy = {"train.early_stopping_patience=1", "train.lr=0.1", "train.checkpoint_every=20"};
  const TestNet net = net_on(dir / "t.csv", noisy);
  const auto to = [&](const std::string& out, int64_t steps, const Words& more) {
    Words set = net.set;
    set.insert(set.end(), {"run.out=" + out, "train.steps=" + std::to_string(steps)});
    const Ended e = Child(train_words(net.config, set, more)).wait();
    EXPECT_EQ(e.code, 0) << e.text;
    return read_run(out).end;
  };
  const json whole = to(dir / "whole", 2000, {});
  ASSERT_TRUE(whole.contains("stopped")) << whole;
  const auto ended = whole.at("steps").get<int64_t>();
  ASSERT_GT(ended, 20);
  to(dir / "cut", 20, {});
  const json resumed = to(dir / "cut", 2000, {"--resume", dir / "cut"});
  EXPECT_EQ(resumed.at("steps"), ended);
  EXPECT_EQ(resumed.at("stopped"), whole.at("stopped"));
  EXPECT_EQ(distance(weights_after(dir / "whole", ended), weights_after(dir / "cut", ended)), 0);
}

}  // namespace
}  // namespace isobar::engine
