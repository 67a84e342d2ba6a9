// Experts with unequal tokens: the busiest rank is priced, from what runs measured or what is said.
#include "perfmodel/step/expert_imbalance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/measured_run.h"
#include "perfmodel/fitting/statistics.h"
#include "support.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

RunSpec moe(const std::vector<std::string>& set) {
  std::vector<std::string> all{"run.threads=1",     "net.embed_dim=256",  "net.ffn_dim=384",
                               "net.depth=4",       "net.seq_length=256", "train.global_batch=8",
                               "net.num_experts=8", "net.vocab_size=1024"};
  all.insert(all.end(), set.begin(), set.end());
  return load_run_spec(source_dir() + "/configs/models/moe-tiny.yaml", all);
}
const std::vector<std::string> kDivided{"layout.dp=2", "layout.ep=2"};

RunSpec divided(double imbalance) {
  return with_imbalance(moe(kDivided), imbalance);
}

bool mentions(const Prediction& p, const std::string& word) {
  return std::any_of(p.warnings.begin(), p.warnings.end(),
                     [&](const std::string& w) { return w.find(word) != std::string::npos; });
}

TEST(ExpertImbalance, SlowsClosedFormAndReplayAlike) {
  const Machine m = test::machine();
  for (const std::vector<std::string>& layout : {kDivided,
                                                 {"layout.dp=4", "layout.ep=4", "policy.micro_batch=1"},
                                                 {"layout.dp=2", "layout.cp=2", "layout.ep=2"}}) {
    const RunSpec even = moe(layout);
    double slower = 1;
    for (const double imbalance : {1.0, 2.0, 3.9}) {
      const RunSpec s = with_imbalance(even, imbalance);
      const double closed = test::closed(s, m) / test::closed(even, m),
                   replayed = test::replay(s, m).step_s / test::replay(even, m).step_s;
      EXPECT_NEAR(closed, replayed, 0.01);
      EXPECT_GE(replayed, imbalance > 1 ? 1.02 * slower : 1);
      slower = replayed;
    }
  }
  const RunSpec whole = moe({"layout.dp=2"});
  EXPECT_EQ(test::closed(with_imbalance(whole, 3), m), test::closed(whole, m)) << "no rank has fewer";
}

// FLOPs are those of all ranks' tokens, and memory has room for any routing.
TEST(ExpertImbalance, ChangesTimesAlone) {
  for (const bool closed_form : {false, true}) {
    const PredictOptions options{.host = {.ranks_on_host = 2, .threads = 1}, .closed_form = closed_form};
    const Prediction even = predict(moe(kDivided), test::machine(), options),
                     uneven = predict(divided(3), test::machine(), options);
    EXPECT_NEAR(uneven.hardware_flops / even.hardware_flops, 1, 1e-9);
    EXPECT_EQ(uneven.memory_total, even.memory_total);
    EXPECT_GT(uneven.step_s, 1.05 * even.step_s);
    EXPECT_GT(uneven.ceiling_s, even.ceiling_s);
    EXPECT_TRUE(mentions(even, "taken as even"));
    EXPECT_FALSE(mentions(uneven, "expert_imbalance"));
    EXPECT_FALSE(mentions(predict(moe({"layout.dp=2"}), test::machine(), options), "expert_imbalance"));
  }
}

// Runs by the replay on a hidden machine, whose routers leave their balance by and by
std::vector<MeasuredRun> runs_on(const Machine& truth, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<MeasuredRun> out;
  for (const char* amp : {"policy.amp=none", "policy.amp=bf16"})
    for (const char* recompute : {"policy.recompute=none", "policy.recompute=full"})
      for (const char* batch : {"train.global_batch=4", "train.global_batch=8"})
        for (const std::vector<std::string>& layout :
             {std::vector<std::string>{}, {"layout.dp=2"}, {"layout.tp=2"}, kDivided}) {
          std::vector<std::string> set{amp, recompute, batch};
          set.insert(set.end(), layout.begin(), layout.end());
          MeasuredRun run{.id = "run" + std::to_string(out.size()), .spec = moe(set)};
          run.expert_imbalance = 2.4 + 0.1 * static_cast<double>(random() % 10);
          run.host = test::host_of(run.spec, truth);
          run.step_s = test::replay(with_imbalance(run.spec, run.expert_imbalance), truth).step_s *
                       std::exp(0.01 * normal(random));
          run.step_error = 0.01;
          out.push_back(run);
        }
  return out;
}

TEST(ExpertImbalance, IsLearntFromRuns) {
  std::mt19937_64 random(5);
  std::vector<double> told, untold;
  for (int round = 0; round < 4; ++round) {
    const Machine truth = test::perturbed(test::machine(), 0.3, random);
    const std::vector<MeasuredRun> runs = runs_on(truth, random);
    std::vector<MeasuredRun> known, silent;  // every other run, with what it measured and without
    for (size_t i = 0; i < runs.size(); ++i)
      if ((i / 4 + i) % 2 == 0) known.push_back(runs[i]);
    silent = known;
    for (MeasuredRun& r : silent) r.expert_imbalance = 0;
    const Machine with = fit(known, test::machine()), without = fit(silent, test::machine());
    EXPECT_EQ(without.fit->range.count("expert_imbalance"), 0U);
    const std::vector<double>& range = with.fit->range.at("expert_imbalance");
    EXPECT_GE(range[0], 2.4);
    EXPECT_LE(range[1], 3.3);
    for (size_t i = 0; i < runs.size(); ++i) {
      if ((i / 4 + i) % 2 == 0 || runs[i].spec.layout.ep == 1) continue;
      told.push_back(
          std::abs(predict(runs[i].spec, with, {.host = runs[i].host}).step_s / runs[i].step_s - 1));
      untold.push_back(
          std::abs(predict(runs[i].spec, without, {.host = runs[i].host}).step_s / runs[i].step_s - 1));
    }
  }
  std::printf("divided experts: median error %.1f %%, of a fit that takes them as even %.1f %%\n",
              100 * quantile(told, 0.5), 100 * quantile(untold, 0.5));
  EXPECT_LT(quantile(told, 0.5), 0.85 * quantile(untold, 0.5));
}

TEST(ExpertImbalance, OfAFitIsTakenWhereNothingIsSaid) {
  std::mt19937_64 random(6);
  Machine m = fit(runs_on(test::machine(), random), test::machine());
  m.fit->range["expert_imbalance"] = {2, 3};
  EXPECT_NEAR(imbalance_of(moe(kDivided), m), std::sqrt(6.0), 1e-12);
  EXPECT_EQ(imbalance_of(divided(1.5), m), 1.5) << "is said";
  EXPECT_EQ(imbalance_of(divided(4.0000001), m), 4) << "rounded up";
  EXPECT_EQ(imbalance_of(moe({"net.num_experts=16"}), m), 0)
      << "of eight experts nothing follows for sixteen";
  EXPECT_EQ(imbalance_of(moe(kDivided), test::machine()), 0) << "was never fitted";
  const PredictOptions options{.host = {.ranks_on_host = 2, .threads = 1}};
  const Prediction taken = predict(moe(kDivided), m, options),
                   said = predict(divided(std::sqrt(6.0)), m, options);
  EXPECT_NEAR(taken.step_s, said.step_s, 1e-9 * said.step_s);
  EXPECT_GT(taken.upper / taken.step_s, 1.005 * said.upper / said.step_s) << "from 2 to 3";
  EXPECT_TRUE(mentions(taken, "is taken as 2.45"));
  EXPECT_FALSE(mentions(said, "expert_imbalance"));
  EXPECT_TRUE(mentions(predict(divided(4), m, options), "expert_imbalance 4 lies outside"));
  const RunSpec four = moe({"layout.dp=2", "layout.ep=2", "net.num_experts_per_tok=4"});
  EXPECT_EQ(imbalance_of(four, m), 2) << "at most all tokens";
  EXPECT_GT(predict(four, m, options).step_s, 0);
  const Machine read = parse_machine(to_yaml(m), "fit.yaml");
  EXPECT_EQ(predict(moe(kDivided), read, options).step_s, taken.step_s) << "by the file";
}

TEST(ExpertImbalance, OfARunIsThatOfItsSteps) {
  records::RunRecord r;
  r.spec = moe(kDivided);
  for (const double imbalance : {9.0, 9.0, 2.0, 3.0, 2.5}) {
    records::StepRecord step;
    step.step = static_cast<int64_t>(r.steps.size()) + 1;
    step.imbalance = imbalance;
    r.steps.push_back(step);
  }
  EXPECT_EQ(measured_run(r, Statistic::median, {}).expert_imbalance, 2.5) << "two warm up";
  for (records::StepRecord& s : r.steps) s.imbalance.reset();
  EXPECT_EQ(measured_run(r, Statistic::median, {}).expert_imbalance, 0);
}

}  // namespace
}  // namespace isobar::perf
