#include "perfmodel/fitting/fit.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/referee/holdout.h"
#include "perfmodel/step/cost.h"
#include "support.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

// Noisy runs of the demo sweep on a hidden machine, by the replay (not the fitted closed form).
std::vector<MeasuredRun> runs_on(const Machine& truth, double noise, std::mt19937_64& random,
                                 bool ops = false, double outliers = 0, double misfit = 0) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<MeasuredRun> out;
  std::map<std::string, Machine> variants;  // effects of shape and precision beyond the counted terms
  for (const RunSpec& s : test::sweep()) {
    auto [variant, fresh] =
        variants.try_emplace(name_of(s.policy.amp) + std::to_string(s.policy.micro_batch), truth);
    if (fresh) variant->second = test::perturbed(truth, misfit, random);
    const Replay r = test::replay(s, variant->second);
    double step = r.step_s * std::exp(noise * normal(random));
    if (uniform(random) < outliers) step *= 1.3;
    const int64_t threads = test::conditions(s, truth).threads;
    MeasuredRun run{.id = "run" + std::to_string(out.size()),
                    .spec = s,
                    .host = {.ranks_on_host = s.layout.world(), .threads = threads},
                    .step_s = step,
                    .step_error = 0.019,
                    .peak_rss_bytes = 0,
                    .ops = {}};
    if (ops) {
      const plan::Plan plan = nets::build_plan(s, 0, {});
      std::map<std::string, MeasuredOp> by_path;
      for (const trace::Span& span : r.timeline.spans) {
        MeasuredOp& op = by_path[plan.ops[span.op].path];
        op.path = plan.ops[span.op].path;
        op.lane = plan::name_of(span.lane);
        op.count += 10;
        op.seconds +=
            10e-9 * static_cast<double>(span.end_ns - span.begin_ns) * std::exp(noise * normal(random));
      }
      for (auto& [path, op] : by_path) run.ops.push_back(op);
    }
    out.push_back(std::move(run));
  }
  return out;
}

struct Campaign {
  std::vector<double> medians;
  double covered = 0, runs = 0;
};
Campaign campaign(int seeds, double noise, double off, bool ops, double outliers, uint64_t seed,
                  double misfit = 0) {
  Campaign c;
  for (int i = 0; i < seeds; ++i) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(i));
    const Machine truth = test::perturbed(test::machine(), off, random);
    const auto runs = runs_on(truth, noise, random, ops, outliers, misfit);
    const HeldOut split = split_runs(runs, 0.5, static_cast<uint64_t>(i));
    const Holdout h = hold_out(pick(runs, split.test), fit(pick(runs, split.train), test::machine()));
    c.medians.push_back(h.median_error);
    for (const HoldoutRow& r : h.rows) c.covered += r.inside() ? 1 : 0;
    c.runs += static_cast<double>(h.rows.size());
  }
  return c;
}

// The demo sweep's criterion: half of it is fitted, from a spec sheet that is far off.
TEST(Fit, PredictsTheOtherHalfOfASweepAndItsIntervalsAreHonest) {
  const Campaign c = campaign(20, 0.03, 0.5, false, 0, 100);
  for (double m : c.medians) EXPECT_LT(m, 0.08);
  EXPECT_LT(quantile(c.medians, 0.5), 0.04);
  EXPECT_GT(c.covered / c.runs, 0.72);
  EXPECT_LT(c.covered / c.runs, 0.88);
  RecordProperty("coverage", std::to_string(c.covered / c.runs));
  RecordProperty("median", std::to_string(quantile(c.medians, 0.5)));
}

TEST(Fit, IntervalsFollowTheNoise) {
  for (double noise : {0.01, 0.08}) {
    const Campaign c = campaign(30, noise, 0.4, false, 0, 300);
    RecordProperty("coverage_" + std::to_string(noise), std::to_string(c.covered / c.runs));
    EXPECT_GT(c.covered / c.runs, 0.68) << noise;
    EXPECT_LT(c.covered / c.runs, 0.92) << noise;
  }
}

// The time of a step outside its ops is the cost of a step: for a net with tiny steps, step times alone
// cannot determine it.
TEST(Fit, WhatOpsLeaveOfAStepTellsWhatAStepCosts) {
  Machine truth = test::machine(), guess = truth;
  truth[Coef::step].value = 1.2e-6;
  guess[Coef::step] = Coefficient::make(1e-4, 1.5, {"spec"});
  std::vector<MeasuredRun> runs;
  for (const int64_t batch : {2, 4, 8, 16}) {
    RunSpec s;
    s.net.set_kind(MlpSpec::kKind);
    s.train.global_batch = batch;
    s.train.loss = LossKind::mse;
    s.run.threads = 1;
    const double step = test::closed(s, truth, {.ranks_on_host = 1, .threads = 1});
    runs.push_back({.id = std::to_string(batch),
                    .spec = s,
                    .step_s = step,
                    .step_error = 0.02,
                    .ops = {{"embed/linear/forward", "compute", 1, 1e-6}},
                    .outside_share = 1.2e-6 / step});
  }
  EXPECT_NEAR(fit(runs, guess)[Coef::step].value, 1.2e-6, 0.3e-6);
  for (MeasuredRun& r : runs) r.outside_share = 0;
  EXPECT_GT(fit(runs, guess)[Coef::step].value, 3e-6);
}

// A quarter of the runs were disturbed, with visible noise in their steps; the other half of the sweep was
// not.
TEST(Fit, MarkedContendedRunsSpoilItLessThanUnmarkedOnes) {
  constexpr int kMachines = 10;
  double marked = 0, unmarked = 0;
  size_t noted = 0;
  for (int i = 0; i < kMachines; ++i) {
    std::mt19937_64 random(900 + static_cast<uint64_t>(i));
    const Machine truth = test::perturbed(test::machine(), 0.3, random);
    const auto runs = runs_on(truth, 0.02, random);
    const HeldOut split = split_runs(runs, 0.5, static_cast<uint64_t>(i));
    std::vector<MeasuredRun> train = pick(runs, split.train);
    std::uniform_real_distribution<double> slower(1.2, 2.2);
    for (size_t k = 0; k < train.size(); k += 4) train[k].step_s *= slower(random);
    const std::vector<MeasuredRun> test = pick(runs, split.test);
    unmarked += hold_out(test, fit(train, test::machine())).median_error / kMachines;
    for (size_t k = 0; k < train.size(); k += 4) {
      train[k].contended = true;
      train[k].step_error = contended_error({.median = 1.2, .p10 = 1, .p90 = 2.4});
    }
    const Machine m = fit(train, test::machine());
    marked += hold_out(test, m).median_error / kMachines;
    for (const std::string& n : m.fit->notes) noted += n.find("contended") != std::string::npos;
  }
  std::printf("held-out median error: %.1f %% marked, %.1f %% unmarked\n", 100 * marked, 100 * unmarked);
  EXPECT_LT(marked, 0.7 * unmarked);
  EXPECT_EQ(noted, static_cast<size_t>(kMachines));
}

TEST(Fit, OutliersDoNotSpoilTheRest) {
  const Campaign c = campaign(12, 0.03, 0.4, false, 0.1, 500);
  EXPECT_LT(quantile(c.medians, 0.5), 0.06);
  EXPECT_GT(c.covered / c.runs, 0.65);
  EXPECT_LT(c.covered / c.runs, 0.92);
}

// Real kernels prefer some shapes: 15 % on every coefficient, new for each micro-batch and precision, outside
// the terms.
TEST(Fit, HoldsWhereTheTermsDoNotTellEverything) {
  for (bool ops : {false, true}) {
    const Campaign c = campaign(20, 0.04, 0.5, ops, 0.03, 900, 0.15);
    RecordProperty(ops ? "coverage_ops" : "coverage", std::to_string(c.covered / c.runs));
    RecordProperty(ops ? "median_ops" : "median", std::to_string(quantile(c.medians, 0.5)));
    EXPECT_LT(quantile(c.medians, 0.9), 0.08);
    EXPECT_GT(c.covered / c.runs, 0.70);
    EXPECT_LT(c.covered / c.runs, 0.90);
  }
}

TEST(Fit, OpTimesMakeCoefficientsBetter) {
  double with = 0, without = 0;
  for (int i = 0; i < 6; ++i) {
    std::mt19937_64 random(700 + i);
    const Machine truth = test::perturbed(test::machine(), 0.5, random);
    auto runs = runs_on(truth, 0.03, random, true);
    const Machine a = fit(runs, test::machine());
    for (MeasuredRun& r : runs) r.ops.clear();
    const Machine b = fit(runs, test::machine());
    for (Coef c : {Coef::gemm_f32, Coef::attention_f32, Coef::attention_backward_f32, Coef::norm}) {
      with += std::abs(std::log(a[c].value / truth[c].value));
      without += std::abs(std::log(b[c].value / truth[c].value));
    }
  }
  EXPECT_LT(with, 0.8 * without);
}

// The returned machine is the solution, even if many small coefficients moved at once.
TEST(Fit, PredictsWhatItWasFittedTo) {
  for (bool ops : {false, true}) {
    double bias = 0;
    for (int i = 0; i < 5; ++i) {
      std::mt19937_64 random(60 + i);
      const Machine truth = test::perturbed(test::machine(), 1.0, random);
      const auto runs = runs_on(truth, 0.01, random, ops);
      const Holdout h = hold_out(runs, fit(runs, test::machine()));
      EXPECT_LT(h.mape, 0.025) << ops;
      bias += h.bias / 5;
    }
    EXPECT_NEAR(bias, 0, 0.01) << ops;
  }
}

TEST(Fit, IsTheSameTwiceAndSurvivesTheFile) {
  std::mt19937_64 random(1);
  const Machine truth = test::perturbed(test::machine(), 0.4, random);
  const auto runs = runs_on(truth, 0.03, random);
  const Machine a = fit(runs, test::machine()), b = fit(runs, test::machine());
  EXPECT_EQ(to_yaml(a), to_yaml(b));
  const Machine c = parse_machine(to_yaml(a), "fitted.yaml");
  const Prediction p = predict(runs[3].spec, a, {}), q = predict(runs[3].spec, c, {});
  EXPECT_EQ(p.step_s, q.step_s);
  EXPECT_EQ(p.lower, q.lower);
  EXPECT_EQ(p.upper, q.upper);
}

TEST(Fit, RemembersTheRunsThatSetACoefficient) {
  std::mt19937_64 random(2);
  const auto runs = runs_on(test::machine(), 0.02, random);
  const Machine m = fit(runs, test::machine());
  const auto has = [&](Coef c, const std::string& id) {
    const auto& p = m[c].provenance;
    return std::find(p.begin(), p.end(), id) != p.end();
  };
  for (const MeasuredRun& r : runs) {
    EXPECT_EQ(has(Coef::gemm_bf16, r.id), r.spec.policy.amp == Amp::bf16) << r.id;
    EXPECT_FALSE(r.spec.layout.dp == 1 && has(Coef::wire_host, r.id)) << r.id;
  }
  EXPECT_EQ(m[Coef::read_netcdf].provenance, std::vector<std::string>{"spec"});
  EXPECT_LT(m[Coef::gemm_f32].log_sigma(), test::machine()[Coef::gemm_f32].log_sigma());
}

TEST(Fit, NeverGoesBelowThePhysicalFloor) {
  std::mt19937_64 random(3);
  auto runs = runs_on(test::machine(), 0.02, random);
  for (MeasuredRun& r : runs) {  // close to the limit of the peaks
    r.step_s = 1.01 * test::ceiling(r.spec, test::machine(), r.host);
    r.step_error = 0;
  }
  const Machine m = fit(runs, test::machine());
  EXPECT_FALSE(m.fit->notes.empty());
  for (size_t i = 0; i < kCoefs; ++i) EXPECT_GE(m.coefficients[i].value, m.floor_of(i)) << info_of(i).name;
  EXPECT_NO_THROW(predict(runs[0].spec, m, {}));
}

TEST(Fit, RefusesRunsFasterThanThePeaks) {
  std::mt19937_64 random(3);
  auto runs = runs_on(test::machine(), 0.02, random);
  runs[0].step_s = 0.9 * test::ceiling(runs[0].spec, test::machine(), runs[0].host);
  EXPECT_THROW(fit(runs, test::machine()), ConfigError);  // a spec sheet's peak is exact
  Machine measured = test::machine();
  measured.peaks.at("f32").provenance = {"peak/f32"};
  const Machine m = fit(runs, measured);
  EXPECT_NEAR(m.peaks.at("f32").value, 1.0e11 * 1.02 / 0.9, 1e6);
  EXPECT_EQ(m.peaks.at("f32").provenance.back(), runs[0].id);
  EXPECT_FALSE(m.fit->notes.empty());
  runs[0].step_s /= 2;
  EXPECT_THROW(fit(runs, measured), ConfigError);
}

TEST(Fit, RefusesToFitNothing) {
  EXPECT_THROW(fit({}, test::machine()), ConfigError);
}

TEST(Fit, LearnsTheConstantOfTheProcess) {
  std::mt19937_64 random(4);
  auto runs = runs_on(test::machine(), 0.02, random);
  for (MeasuredRun& r : runs) r.peak_rss_bytes = nets::build_plan(r.spec, 0, {}).memory.total() + 87654321;
  EXPECT_NEAR(fit(runs, test::machine())[Coef::process].value, 87654321, 1);
}

// A GPU's run knows its context and libraries, whatever its host process takes.
TEST(Fit, LearnsTheConstantOfAProcessOnAnAccelerator) {
  const Machine h100 = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  MeasuredRun r;
  r.id = "measured";
  r.spec =
      load_run_spec(source_dir() + "/configs/models/vit-384.yaml",
                    {"policy.amp=bf16", "policy.micro_batch=4", "train.global_batch=4", "run.device=cuda"});
  r.step_s = 0.05;
  r.peak_rss_bytes = int64_t{9} << 30;
  std::vector<MeasuredRun> runs(4, r);
  EXPECT_EQ(fit(runs, h100)[Coef::process].value, h100[Coef::process].value);
  for (MeasuredRun& m : runs) m.process_bytes = (int64_t{534} + 21) << 20;
  EXPECT_NEAR(fit(runs, h100)[Coef::process].value, 555.0 * (1 << 20), 1);
}

TEST(HeldOut, KeepsRepetitionsTogether) {
  std::mt19937_64 random(6);
  auto runs = runs_on(test::machine(), 0.02, random);
  const size_t n = runs.size();
  for (int copy = 1; copy < 3; ++copy)
    for (size_t i = 0; i < n; ++i) {
      runs.push_back(runs[i]);
      runs.back().spec.run.out = "results/" + std::to_string(runs.size());
    }
  const HeldOut s = split_runs(runs, 0.5, 7);
  ASSERT_EQ(s.train.size(), runs.size() / 2);
  std::vector<int> copies(n, 0);
  for (size_t i : s.train) ++copies[i % n];
  for (int c : copies) EXPECT_TRUE(c == 0 || c == 3) << c;
}

TEST(HeldOut, ByLayoutShowsTheFitNothingOfWhatIsHeldOut) {
  std::mt19937_64 random(8);
  const auto runs = runs_on(test::machine(), 0.02, random);
  const auto layout_key = [&](size_t i) {
    nlohmann::json j = to_json(runs[i].spec);
    j["policy"].erase("amp");
    return j["layout"].dump() + j["policy"].dump();
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const HeldOut s = split_runs(runs, 0.5, seed, Together::layout);
    EXPECT_EQ(s.train.size() + s.test.size(), runs.size());
    std::set<std::string> seen, held_out;
    for (size_t i : s.train) seen.insert(layout_key(i));
    for (size_t i : s.test) held_out.insert(layout_key(i));
    EXPECT_FALSE(seen.empty());
    for (const std::string& l : held_out) EXPECT_EQ(seen.count(l), 0u);
  }
}

TEST(Holdout, RegretIsWhatTheFirstChoiceLoses) {
  std::mt19937_64 random(9);
  auto runs = runs_on(test::machine(), 0, random);
  const Holdout h = hold_out(runs, test::machine());
  size_t first = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].step_s = h.rows[i].predicted;
    const auto rate = [&](size_t k) {
      return static_cast<double>(runs[k].spec.train.global_batch) / h.rows[k].predicted;
    };
    if (rate(i) > rate(first)) first = i;
  }
  EXPECT_EQ(hold_out(runs, test::machine()).regret, 0) << "the truth regrets nothing";
  runs[first].step_s *= 1.25;
  const double regret = hold_out(runs, test::machine()).regret;
  EXPECT_GT(regret, 0);
  EXPECT_LE(regret, 0.2 + 1e-12);
}

TEST(Holdout, SettingsAreJudgedByTheMedianOfTheirRepetitions) {
  std::mt19937_64 random(10);
  const auto once = runs_on(test::machine(), 0, random);
  const Holdout alone = hold_out(once, test::machine());
  EXPECT_EQ(alone.settings, once.size());
  EXPECT_EQ(alone.settings_error, alone.median_error) << "one run is its own median";

  std::vector<MeasuredRun> thrice;  // 20 % too fast, 10 % too slow, and disturbed: the median counts
  for (size_t i = 0; i < once.size(); ++i)
    for (const double factor : {0.8, 1.1, 3.0}) {
      MeasuredRun r = once[i];
      r.id += "/" + std::to_string(thrice.size());
      r.spec.train.seed += thrice.size();
      r.step_s = factor * alone.rows[i].predicted;
      thrice.push_back(std::move(r));
    }
  const Holdout h = hold_out(thrice, test::machine());
  EXPECT_EQ(h.settings, once.size());
  EXPECT_NEAR(h.settings_error, 1 - 1 / 1.1, 1e-9);
  // 0.8 against the median of {1.1, 3}, 1.1 against that of {0.8, 3}, 3 against that of {0.8, 1.1}
  EXPECT_NEAR(h.repeat_error, 1 - 0.8 / 2.05, 1e-9);
}

TEST(Holdout, JsonTellsFittedRunsFromHeldOutOnes) {
  std::mt19937_64 random(7);
  const auto runs = runs_on(test::machine(), 0.02, random);
  const HeldOut split = split_runs(runs, 0.25, 7);
  const Machine m = fit(pick(runs, split.train), test::machine());
  const Holdout held_out = hold_out(pick(runs, split.test), m);
  const nlohmann::json j = holdout_json(m, hold_out(pick(runs, split.train), m), held_out);
  ASSERT_EQ(j["runs"].size(), runs.size());
  size_t fitted = 0;
  for (const auto& row : j["runs"]) {
    fitted += row["in_fit"] == true;
    double sum = 0;
    for (const auto& [name, s] : row["terms"].items()) sum += s.get<double>();
    EXPECT_NEAR(sum, row["predicted_s"].get<double>(), 1e-9);
    EXPECT_LT(row["lo_s"], row["hi_s"]);
  }
  EXPECT_EQ(fitted, runs.size() / 4);
  EXPECT_EQ(j["held_out"]["median_error"], held_out.median_error);
  EXPECT_GT(held_out.rank_correlation, 0.9);
}

TEST(HeldOut, IsDisjointCompleteRepeatableAndBalanced) {
  std::mt19937_64 random(5);
  const auto runs = runs_on(test::machine(), 0.02, random);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const HeldOut s = split_runs(runs, 0.5, seed);
    std::vector<size_t> all = s.train;
    all.insert(all.end(), s.test.begin(), s.test.end());
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < runs.size(); ++i) ASSERT_EQ(all.at(i), i);
    EXPECT_EQ(s.train.size(), runs.size() / 2);
    EXPECT_EQ(s.train, split_runs(runs, 0.5, seed).train);
    int two = 0, half = 0, workers = 0;
    for (size_t i : s.train) {
      two += runs[i].spec.layout.dp == 2;
      half += runs[i].spec.policy.amp == Amp::bf16;
      workers += runs[i].spec.data.workers == 1;
    }
    EXPECT_NEAR(two, 9, 1);
    EXPECT_NEAR(half, 9, 1);
    EXPECT_NEAR(workers, 6, 1);
  }
  EXPECT_NE(split_runs(runs, 0.5, 1).train, split_runs(runs, 0.5, 2).train);
}

}  // namespace
}  // namespace isobar::perf
