// Step times predicted from settings alone: a known law is found from half of the runs, names and
// interactions count, intervals hold what they say, and the fit survives its file.
#include "perfmodel/fitting/settings_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/base/error.h"
#include "perfmodel/ask/suggest.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/referee/holdout.h"

namespace isobar::perf {
namespace {

struct Law {
  double fixed, per_sample, bf16, per_rank;
  double operator()(const RunSpec& s) const {
    const auto samples = static_cast<double>(s.train.global_batch) / static_cast<double>(s.layout.dp);
    const double compute = samples * per_sample * (s.policy.amp == Amp::bf16 ? bf16 : 1);
    return fixed + compute + per_rank * static_cast<double>(s.layout.dp - 1);
  }
};

/// Every combination of ranks, batch, micro-batch and precision, with log-normal noise.
std::vector<MeasuredRun> runs_of(const Law& law, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, noise);
  std::vector<MeasuredRun> out;
  for (const int64_t dp : {1, 2, 4})
    for (const int64_t batch : {8, 16, 32})
      for (const int64_t micro : {1, 2})
        for (const Amp amp : {Amp::none, Amp::bf16}) {
          MeasuredRun r;
          r.id = std::to_string(out.size());
          r.spec.layout.dp = dp;
          r.spec.train.global_batch = batch;
          r.spec.policy.micro_batch = micro;
          r.spec.policy.amp = amp;
          r.step_s = law(r.spec) * std::exp(normal(random));
          out.push_back(r);
        }
  return out;
}

// Reference: the law itself.
TEST(SettingsFit, PredictsRunsThatItHasNotSeen) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> any(0.5, 2);
  size_t inside = 0, all = 0;
  std::vector<double> errors;  // median of each law's held-out half
  for (int round = 0; round < 12; ++round) {
    const Law law{0.02 * any(random), 0.004 * any(random), 0.6 * any(random), 0.003 * any(random)};
    const std::vector<MeasuredRun> runs = runs_of(law, 0.01, random);
    const HeldOut split = split_runs(runs, 0.5, random());
    const Holdout h = hold_out(pick(runs, split.test), SettingsFit(pick(runs, split.train)));
    errors.push_back(h.median_error);
    for (const HoldoutRow& r : h.rows) inside += r.inside(), ++all;
  }
  EXPECT_LT(quantile(errors, 0.5), 0.06);
  EXPECT_LT(quantile(errors, 1), 0.15);
  EXPECT_GT(static_cast<double>(inside), 0.62 * static_cast<double>(all));
}

TEST(SettingsFit, EffectsAreFactors) {
  std::mt19937_64 random(1);
  const std::vector<MeasuredRun> runs = runs_of({0, 0.004, 0.5, 0}, 0.005, random);
  const SettingsFit fit(runs);
  for (const SettingEffect& e : fit.effects()) {
    const double want = e.key == "train.global_batch"     ? 2
                        : e.key == "layout.dp"            ? 0.5
                        : e.key == "policy.micro_batch"   ? 1
                        : e.value.starts_with("\"none\"") ? 2
                                                          : 0.5;
    EXPECT_NEAR(e.factor, want, 0.1 * want) << e.key << " " << e.value;
    EXPECT_LT(e.lower, e.factor);
    EXPECT_GT(e.upper, e.factor);
  }
  EXPECT_EQ(fit.effects().size(), 4u);
}

TEST(SettingsFit, FarFromAllRunsTheIntervalIsWide) {
  std::mt19937_64 random(2);
  const std::vector<MeasuredRun> runs = runs_of({0.02, 0.004, 0.5, 0.002}, 0.01, random);
  const SettingsFit fit(runs);
  const auto width = [&](int64_t batch) {
    RunSpec s = runs[0].spec;
    s.train.global_batch = batch;
    const StepRange r = fit(s);
    EXPECT_LT(r.lower, r.seconds);
    return r.upper / r.lower;
  };
  EXPECT_GT(width(4096), 1.3 * width(16));
  const StepRange blind = SettingsFit(std::vector<MeasuredRun>{})(runs[0].spec);
  EXPECT_GT(blind.upper / blind.lower, 50);
}

TEST(SettingsFit, ItsFileIsTheSameFit) {
  std::mt19937_64 random(3);
  const std::vector<MeasuredRun> runs = runs_of({0.02, 0.004, 0.5, 0.002}, 0.01, random);
  const SettingsFit fit(runs);
  const SettingsFit again = SettingsFit::from_json(nlohmann::json::parse(fit.to_json().dump()), "f.json");
  for (const MeasuredRun& r : runs) {
    EXPECT_NEAR(again(r.spec).seconds / fit(r.spec).seconds, 1, 1e-9);
    EXPECT_NEAR(again(r.spec).upper / fit(r.spec).upper, 1, 1e-9);
  }
  nlohmann::json bad = fit.to_json();
  bad["by_settings"][0]["step_s"] = -1;
  EXPECT_THROW(SettingsFit::from_json(bad, "f.json"), ConfigError);
}

// Reference: the best of all runs by the law.
TEST(SettingsFit, SuggestionsFindTheBest) {
  std::mt19937_64 random(4);
  const Law law{0.02, 0.004, 0.5, 0.002};
  const std::vector<MeasuredRun> runs = runs_of(law, 0.01, random);
  std::vector<Candidate> candidates;
  for (const MeasuredRun& r : runs) candidates.push_back({.spec = r.spec, .view = {}});
  const auto rate = [&](const Candidate& c) {
    return static_cast<double>(c.spec.train.global_batch) / law(c.spec);
  };
  double best = 0;
  for (const Candidate& c : candidates) best = std::max(best, rate(c));
  size_t measured = 0;
  double regret = 1;
  for (; measured < 16 && regret > 0.03; ++measured) {
    std::vector<MeasuredRun> known;
    for (const Candidate& c : candidates) known.insert(known.end(), c.measured.begin(), c.measured.end());
    const Outlook o = look_ahead(candidates, SettingsFit(known), {.count = 1});
    regret = 1 - rate(candidates[o.choice]) / best;
    const size_t next = o.next.at(0).candidate;
    candidates[next].measured.push_back(runs[next]);
    candidates[next].trials_left = 0;
  }
  EXPECT_LE(regret, 0.03) << "after " << measured << " of " << runs.size();
}

}  // namespace
}  // namespace isobar::perf
