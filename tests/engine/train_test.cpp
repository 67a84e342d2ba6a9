// Runs of the real command: ranks, micro-batches and lanes do not change results; a run killed at any moment
// and resumed ends like an uninterrupted one.
#include <gtest/gtest.h>

#include <cmath>

#include "model/data/synthetic/synth.h"
#include "tests/engine/command.h"
#include "tests/worst.h"

namespace isobar::engine {
namespace {

/// A train run that must succeed.
WrittenRun trained(const std::string& out, Words set, const Words& more = {}) {
  set.push_back("run.out=" + out);
  set.emplace_back("run.threads=1");
  const Ended e = train_command(set, more);
  EXPECT_EQ(e.code, 0) << e.text;
  WrittenRun r = read_run(out);
  EXPECT_EQ(r.end.value("status", ""), "ok") << e.text;
  return r;
}

double largest_difference(const WrittenRun& a, const WrittenRun& b) {
  double most = 0;
  EXPECT_EQ(a.losses.size(), b.losses.size());
  for (const auto& [step, loss] : a.losses) most = worst(most, std::abs(b.losses.at(step) / loss - 1));
  return most;
}

void expect_same_checkpoint(const std::string& a, const std::string& b, int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08ld", step);
  const fs::path in_a = fs::path(a) / "checkpoints" / name, in_b = fs::path(b) / "checkpoints" / name;
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string text = text_of(in_a / file);
    EXPECT_GT(text.size(), 20u) << in_a;
    EXPECT_TRUE(text == text_of(in_b / file)) << file << " of " << in_a << " and " << in_b << " differ";
  }
  json x = json::parse(text_of(in_a / "state.json")), y = json::parse(text_of(in_b / "state.json"));
  for (json* state : {&x, &y}) state->erase("spec"), state->erase("sha256");  // contain run.out
  EXPECT_EQ(x, y);
}

const Words kBase = {"train.steps=20", "train.lr=3e-3", "train.seed=5"};  // a rate at which the net learns

Words with(Words base, const Words& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

TEST(Train, TwoRanksGiveTheLossesOfOne) {
  const Folder dir;
  const WrittenRun one = trained(dir / "one", kBase);
  ASSERT_EQ(one.losses.size(), 20u);
  EXPECT_LT(one.losses.at(20), 0.97 * one.losses.at(1)) << "nothing is learnt: nothing is tested";
  double most = 0;
  int n = 0;
  for (const Words& variant : {Words{}, Words{"policy.micro_batch=2", "policy.bucket_mb=0.05"},
                               Words{"policy.micro_batch=1", "policy.bucket_mb=0.01", "policy.overlap=false"},
                               Words{"policy.micro_batch=4", "policy.bucket_mb=0.2", "data.workers=2"}}) {
    SCOPED_TRACE(testing::PrintToString(variant));
    const WrittenRun two = trained(dir / std::to_string(++n), with(kBase, variant), {"--ranks", "2"});
    EXPECT_EQ(two.start["ranks"], 2);
    EXPECT_EQ(two.start["spec"]["layout"]["dp"], 2);
    const double difference = largest_difference(one, two);
    EXPECT_LE(difference, 1e-5);
    most = std::max(most, difference);
  }
  const WrittenRun cut =
      trained(dir / "cut", with(kBase, {"policy.micro_batch=2"}));  // gradient accumulation on one rank
  EXPECT_LE(largest_difference(one, cut), 1e-5);
  std::printf("largest relative difference of a loss in 20 steps, two ranks to one: %.1e\n", most);
}

TEST(Train, FourRanksGiveTheLossesOfOneInBf16Too) {
  const Folder dir;
  const WrittenRun one = trained(dir / "one", with(kBase, {"policy.amp=bf16", "train.steps=6"}));
  const WrittenRun four =
      trained(dir / "four", with(kBase, {"policy.amp=bf16", "train.steps=6"}), {"--ranks", "4"});
  // The order of sums differs, so a bf16 weight may round to a neighbouring value.
  EXPECT_LE(largest_difference(one, four), 2e-3);
}

TEST(Train, TheSameRunTwiceIsBitIdentical) {
  const Folder dir;
  for (const Words& variant :
       {Words{}, Words{"policy.amp=bf16", "policy.micro_batch=2", "policy.bucket_mb=0.05"}})
    for (const char* ranks : {"1", "2"}) {
      SCOPED_TRACE(testing::PrintToString(variant) + " ranks " + ranks);
      const Words set = with(with(kBase, variant), {"train.checkpoint_every=20"});
      const std::string a = dir / (ranks + std::to_string(variant.size()) + "a"),
                        b = dir / (ranks + std::to_string(variant.size()) + "b");
      const WrittenRun first = trained(a, set, {"--ranks", ranks}),
                       second = trained(b, set, {"--ranks", ranks});
      EXPECT_EQ(first.losses, second.losses);
      EXPECT_EQ(first.start["plan_hash"], second.start["plan_hash"]);
      EXPECT_FALSE(first.start["kernels"].empty());
      EXPECT_EQ(first.start["kernels"], second.start["kernels"]);
      expect_same_checkpoint(a, b, 20);
    }
}

TEST(Train, TheRecordNamesTheKernelOfEachKindOfOp) {
  const Folder dir;
  const auto kernels = [&](const char* variable, const char* isa) {
    const char* const held = std::getenv(variable);
    const std::string before = held ? held : "";
    ::setenv(variable, isa, 1);
    const json k = trained(dir / isa, {"train.steps=1", "policy.amp=bf16"}).start["kernels"];
    held ? ::setenv(variable, before.c_str(), 1) : ::unsetenv(variable);
    return k;
  };
  for (const char* isa : {"portable", "avx2"}) {
    const json k = kernels("ISOBAR_MAX_ISA", isa);
    ASSERT_TRUE(k.is_object()) << k;
    EXPECT_TRUE(k["gemm bf16"].begin().key().starts_with("oneDNN ")) << k;
    EXPECT_TRUE(k["gemm bf16"].begin().key().ends_with("sgemm of rounded operands")) << k;
    EXPECT_TRUE(k["attention bf16"].contains(std::string("own, ") + isa + " on rounded operands")) << k;
    EXPECT_TRUE(k["residual_norm bf16"].contains(std::string("own, ") + isa)) << k;
    EXPECT_GT(k["residual_norm_backward bf16"][std::string("own, ") + isa].get<int64_t>(), 1) << k;
  }
  // bf16 products are emulated, too, if oneDNN is held to less than the CPU has.
  const json k = kernels("ONEDNN_MAX_CPU_ISA", "AVX2");
  EXPECT_TRUE(k["gemm bf16"].begin().key().ends_with("sgemm of rounded operands")) << k;
}

TEST(Train, OverlapAndSerialLanesAreBitIdentical) {
  const Folder dir;
  const Words set =
      with(kBase, {"train.checkpoint_every=20", "policy.bucket_mb=0.05", "policy.micro_batch=2"});
  const WrittenRun lanes = trained(dir / "lanes", set, {"--ranks", "2"});
  const WrittenRun serial = trained(dir / "serial", with(set, {"run.serial=true"}), {"--ranks", "2"});
  EXPECT_EQ(lanes.losses, serial.losses);
  expect_same_checkpoint(dir / "lanes", dir / "serial", 20);
}

TEST(Train, LoaderWorkersChangeNothing) {
  const Folder dir;
  const WrittenRun none = trained(dir / "none", kBase);
  for (const char* workers : {"1", "3"})
    EXPECT_EQ(trained(dir / workers, with(kBase, {std::string("data.workers=") + workers})).losses,
              none.losses);
}

// ---- killed and resumed ----

class Killed : public testing::TestWithParam<const char*> {};  // parameter: data workers

TEST_P(Killed, AndResumedEndsAsIfNothingHadHappened) {
  const Folder dir;
  data::make_synthetic(dir / "data", {.train_years = 1,
                                      .valid_years = 1,
                                      .test_years = 0,
                                      .samples_per_year = 37,
                                      .channels = 4,
                                      .height = 32,
                                      .width = 64});
  const int64_t steps = 200;
  const Words set =
      with(kBase, {"train.steps=" + std::to_string(steps), "train.checkpoint_every=7", "train.valid_every=40",
                   "data.train=" + (dir / "data/train"), "data.valid=" + (dir / "data/valid"),
                   std::string("data.workers=") + GetParam(), "run.threads=1", "policy.micro_batch=4"});
  const WrittenRun whole = trained(dir / "whole", set);
  ASSERT_EQ(whole.losses.size(), static_cast<size_t>(steps));
  std::mt19937 random(std::random_device{}());
  const std::string out = dir / "killed";
  int kills = 0;
  for (int64_t at = 8 + static_cast<int64_t>(random() % 40);
       at < steps - 60;  // leaves time on a busy machine
       at += 20 + static_cast<int64_t>(random() % 40)) {
    Words more;
    if (kills > 0) more = {"--resume", out};
    Child child(train_words(tiny(), with(set, {"run.out=" + out}), more));
    ASSERT_TRUE(reached(child, out, at)) << child.wait().text;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ::kill(child.pid(), SIGKILL);
    const Ended e = child.wait();
    ASSERT_EQ(e.code, 1000 + SIGKILL) << "was not killed in the middle of its work\n" << e.text;
    ++kills;
  }
  EXPECT_GE(kills, 2);
  const WrittenRun resumed = trained(out, set, {"--resume", out});
  EXPECT_TRUE(resumed.start["resumed"]);
  EXPECT_TRUE(resumed.repeats_agree) << "a step trained again gave another loss";
  EXPECT_EQ(resumed.losses, whole.losses);
  expect_same_checkpoint(dir / "whole", out, steps);
  const auto validations = [](const WrittenRun& r) {
    std::map<int64_t, json> v;
    for (const json& e : r.events)
      if (e["event"] == "valid") v[e["step"]] = {e["loss"], e["rmse"], e["persistence_rmse"]};
    return v;
  };
  EXPECT_EQ(validations(resumed), validations(whole));
  EXPECT_EQ(validations(whole).size(), 6u);  // before the first step, at 40, 80, 120, 160, and at the end
}
INSTANTIATE_TEST_SUITE_P(Workers, Killed, testing::Values("0", "2"));

// Validation losses determine the rate, so they must survive a resume.
TEST(Train, ResumedOnAPlateauGoesOnWithItsRate) {
  const Folder dir;
  data::make_synthetic(dir / "data", {.train_years = 1,
                                      .valid_years = 1,
                                      .test_years = 0,
                                      .samples_per_year = 37,
                                      .channels = 4,
                                      .height = 32,
                                      .width = 64});
  const Words set =
      with(kBase, {"train.steps=40", "train.checkpoint_every=10", "train.valid_every=5",
                   "data.train=" + (dir / "data/train"), "data.valid=" + (dir / "data/valid"),
                   "train.lr_schedule=plateau", "train.lr_patience=1", "train.lr_gamma=0.5",
                   "train.lr_threshold=0.9", "train.loss=huber", "train.loss_weights=[1, 0.5, 2, 1]"});
  const auto rates = [](const WrittenRun& r) {
    std::map<int64_t, double> out;
    for (const json& e : r.events)
      if (e["event"] == "step") out[e["step"]] = e["lr"];
    return out;
  };
  const WrittenRun whole = trained(dir / "whole", set, {"--ranks", "2"});
  const auto expected = rates(whole);
  // The first validation, after step 5, is the best; every second later one exceeds the patience.
  EXPECT_EQ(expected.at(15) / expected.at(1), 1);
  EXPECT_EQ(expected.at(16) / expected.at(1), 0.5);
  EXPECT_EQ(expected.at(36) / expected.at(1), 0.125);
  trained(dir / "halves", with(set, {"train.steps=20"}), {"--ranks", "2"});
  const WrittenRun halves = trained(dir / "halves", set, {"--ranks", "2", "--resume", dir / "halves"});
  EXPECT_EQ(rates(halves), expected);
  EXPECT_EQ(halves.losses, whole.losses);
  expect_same_checkpoint(dir / "whole", dir / "halves", 40);
}

TEST(Train, TwoRanksKilledAndResumedEndAsIfNothingHadHappened) {
  const Folder dir;
  const Words set = with(kBase, {"train.steps=180", "train.checkpoint_every=9", "data.workers=1",
                                 "policy.bucket_mb=0.1", "run.threads=1"});
  const WrittenRun whole = trained(dir / "whole", set, {"--ranks", "2"});
  const std::string out = dir / "killed";
  {
    Child child(train_words(tiny(), with(set, {"run.out=" + out}), {"--ranks", "2"}));
    ASSERT_TRUE(reached(child, out, 40));
    const auto ranks = ranks_of(child.pid());
    ASSERT_EQ(ranks.size(), 2u);
    for (const pid_t rank : ranks) ::kill(rank, SIGKILL);
    EXPECT_NE(child.wait().code, 0);
  }
  const WrittenRun resumed = trained(out, set, {"--resume", out, "--ranks", "2"});
  EXPECT_TRUE(resumed.repeats_agree);
  EXPECT_EQ(resumed.losses, whole.losses);
  expect_same_checkpoint(dir / "whole", out, 180);
}

TEST(Train, ResumingAFinishedRunEndsAtOnce) {
  const Folder dir;
  const Words set = with(kBase, {"train.checkpoint_every=20"});
  trained(dir / "run", set);
  const WrittenRun again = trained(dir / "run", set, {"--resume", dir / "run"});
  EXPECT_EQ(again.losses.size(), 20u);
  EXPECT_EQ(again.end["status"], "ok");
}

TEST(Train, EveryStepAndTheEndSayWhatTheyCost) {
  const Folder dir;
  const WrittenRun r = trained(dir / "run", kBase);
  int steps = 0;
  for (const json& e : r.events) {
    if (e["event"] != "step") continue;
    ++steps;
    for (const char* key : {"loss", "rmse", "lr", "grad_norm", "seconds", "samples_per_s", "rss_bytes"})
      EXPECT_GT(e.at(key).get<double>(), 0) << key;
    EXPECT_GE(e.at("data_wait_s").get<double>(), 0);
    EXPECT_NEAR(e["samples_per_s"].get<double>() * e["seconds"].get<double>(), 8, 1e-6);
    const double x = e["step"].get<double>() - 1;
    EXPECT_NEAR(e["lr"].get<double>(), 3e-3 * 0.5 * (1 + std::cos(M_PI * x / 20)), 1e-12);
  }
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(r.start["parameters"], 134976);
  double seconds = 0;
  for (const json& op : r.end["ops"]) {
    EXPECT_EQ(op["count"].get<int64_t>() % 18, 0) << op;  // two of 20 steps are warm-up
    seconds += op["seconds"].get<double>();
  }
  const double median = r.end["step_s"]["median"];
  EXPECT_LE(r.end["step_s"]["min"].get<double>(), median);
  EXPECT_LE(median, r.end["step_s"]["p90"].get<double>());
  EXPECT_GE(seconds, 18 * r.end["step_s"]["min"].get<double>() * 0.9);
  const json spec = json::parse(text_of(dir / "run/spec.json"));
  EXPECT_EQ(spec, r.start["spec"]);
}

}  // namespace
}  // namespace isobar::engine
