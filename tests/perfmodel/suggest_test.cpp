// Suggestions against hidden machines: their promises are checked over many random truths.
#include "perfmodel/ask/suggest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "perfmodel/referee/rehearse.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

using test::machine;

uint64_t fresh_seed() {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// The demo sweep on a hidden machine: coefficients off by a fifth, each specification by a few percent, each
// measurement by its steps' noise.
struct Hidden {
  std::vector<Candidate> finished;
  std::vector<double> truth;  // undisturbed seconds
};
Hidden demo_space(uint64_t seed, double own, double noise, int repetitions = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const Machine before = machine(), hidden = test::perturbed(before, 0.2, random);
  static const std::vector<RunSpec> specs = test::sweep();
  static LayoutModels models;
  Hidden h;
  for (size_t i = 0; i < specs.size(); ++i) {
    const HostShare host = test::host_of(specs[i], before);
    Candidate c{.spec = specs[i], .view = models.view(specs[i], before, host)};
    const double ceiling = c.view.ceiling_s;
    h.truth.push_back(
        std::max(1.1 * ceiling, c.view.seconds(hidden.values()) * std::exp(own * normal(random))));
    for (int r = 0; r < repetitions; ++r) {
      MeasuredRun m{.id = std::to_string(i) + "/" + std::to_string(r), .spec = specs[i]};
      m.host = host;
      m.step_s = std::max(1.01 * ceiling, h.truth[i] * std::exp(noise * normal(random)));
      m.step_error = noise;
      m.run_to_run = 0;
      c.measured.push_back(m);
    }
    h.finished.push_back(std::move(c));
  }
  return h;
}

// The candidates after the first `n` of a random order were run.
std::vector<Candidate> after(const std::vector<Candidate>& finished, size_t n, std::mt19937_64& random,
                             std::vector<MeasuredRun>& runs) {
  std::vector<size_t> order(finished.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Candidate> out = finished;
  for (size_t k = 0; k < order.size(); ++k) {
    Candidate& c = out[order[k]];
    c.trials_left = 0;
    if (k < n) {
      runs.insert(runs.end(), c.measured.begin(), c.measured.end());
    } else {
      c.trials_left = static_cast<int64_t>(c.measured.size());
      c.measured.clear();
    }
  }
  return out;
}

TEST(Suggest, GainFromOneNormalIsItsIntegral) {
  std::mt19937_64 random(fresh_seed());
  std::normal_distribution<double> normal;
  for (int round = 0; round < 50; ++round) {
    const size_t n = 1 + random() % 12;
    std::vector<double> mean(n), slope(n);
    for (size_t i = 0; i < n; ++i) {
      mean[i] = normal(random);
      slope[i] = round % 3 == 0 ? std::round(normal(random)) : normal(random);  // parallel lines too
    }
    double integral = 0;
    const double step = 1e-3;
    for (double z = -9; z < 9; z += step) {
      double least = mean[0] + slope[0] * z;
      for (size_t i = 1; i < n; ++i) least = std::min(least, mean[i] + slope[i] * z);
      integral += least * std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI) * step;
    }
    EXPECT_NEAR(expected_minimum_change(mean, slope), integral - *std::min_element(mean.begin(), mean.end()),
                1e-5);
  }
}

TEST(Suggest, BeliefInWhatWasNotRunIsTheEstimate) {
  const uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  for (const size_t n : {0U, 12U}) {
    std::vector<MeasuredRun> runs;
    const std::vector<Candidate> c = after(demo_space(seed, 0.05, 0.02).finished, n, random, runs);
    const Machine m = runs.empty() ? machine() : fit(runs, machine());
    const Outlook o = look_ahead(c, m, {});
    double chances = 0;
    for (size_t i = 0; i < c.size(); ++i) {
      chances += o.beliefs[i].chance;
      if (!c[i].measured.empty()) continue;
      const Estimate e = estimate(c[i].view, m);
      EXPECT_NEAR(o.beliefs[i].seconds, e.seconds, 1e-9 * e.seconds);
      EXPECT_NEAR(o.beliefs[i].upper, e.upper, n == 0 ? 1e-6 * e.upper : 0.03 * e.upper);
    }
    EXPECT_NEAR(chances, 1, 1e-9);
  }
}

TEST(Suggest, NamesDifferentTrialsThatWereNotRunAndDoesSoAgain) {
  const uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  std::vector<MeasuredRun> runs;
  const std::vector<Candidate> c = after(demo_space(seed, 0.05, 0.02).finished, 10, random, runs);
  const Machine m = fit(runs, machine());
  const Outlook o = look_ahead(c, m, {.count = 40, .seed = 3});
  EXPECT_EQ(o.next.size(), 26U) << "all that are left, and no more";
  std::set<size_t> named;
  for (const Suggestion& s : o.next) {
    EXPECT_TRUE(c[s.candidate].measured.empty());
    EXPECT_TRUE(named.insert(s.candidate).second) << s.candidate << " was named before";
    EXPECT_GE(s.gain, 0);
  }
  const Outlook again = look_ahead(c, m, {.count = 40, .seed = 3});
  EXPECT_EQ(o.regret, again.regret);
  ASSERT_EQ(o.next.size(), again.next.size());
  for (size_t i = 0; i < o.next.size(); ++i) EXPECT_EQ(o.next[i].candidate, again.next[i].candidate);
}

TEST(Suggest, OfEqualTrialsTheCheaperOneGoesFirst) {
  // The same information with fewer steps is cheaper.
  const uint64_t seed = fresh_seed();
  Candidate dear = demo_space(seed, 0.05, 0.02).finished[0];
  dear.measured.clear();
  dear.spec.train.steps = 400;
  Candidate cheap = dear;
  cheap.spec.train.steps = 40;
  for (const bool swapped : {false, true}) {
    const std::vector<Candidate> c =
        swapped ? std::vector<Candidate>{cheap, dear} : std::vector<Candidate>{dear, cheap};
    const Outlook o = look_ahead(c, machine(), {.count = 1});
    ASSERT_EQ(o.next.size(), 1U);
    EXPECT_EQ(o.next[0].candidate, swapped ? 0U : 1U);
  }
}

TEST(Suggest, RegretIsZeroWhenEverythingIsMeasuredWithoutError) {
  const uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  const Hidden h = demo_space(seed, 0.05, 0);
  std::vector<MeasuredRun> runs;
  const std::vector<Candidate> c = after(h.finished, h.finished.size(), random, runs);
  const Outlook o = look_ahead(c, fit(runs, machine()), {});
  EXPECT_TRUE(o.next.empty());
  EXPECT_NEAR(o.regret, 0, 1e-9);
  EXPECT_EQ(o.choice,
            static_cast<size_t>(std::min_element(h.truth.begin(), h.truth.end()) - h.truth.begin()));
}

// Missing or identical step times say nothing about another day's.
TEST(Suggest, NoMeasuredRunHasAnIntervalOfWidthZero) {
  const uint64_t seed = fresh_seed();
  std::mt19937_64 random(seed);
  std::vector<MeasuredRun> runs;
  std::vector<Candidate> c = after(demo_space(seed, 0.05, 0).finished, 12, random, runs);
  for (Candidate& one : c)
    for (MeasuredRun& r : one.measured) r.run_to_run = MeasuredRun{}.run_to_run;
  const Outlook o = look_ahead(c, fit(runs, machine()), {});
  for (size_t i = 0; i < c.size(); ++i)
    if (!c[i].measured.empty()) {
      EXPECT_GT(o.beliefs[i].upper / o.beliefs[i].lower, 1.01) << i;
      EXPECT_LT(o.beliefs[i].upper / o.beliefs[i].lower, 1.06) << i;
    }
}

TEST(Suggest, AContendedMeasurementIsOutweighedByItsRepeat) {
  const uint64_t seed = fresh_seed();
  Hidden h = demo_space(seed, 0.05, 0.01);
  std::vector<MeasuredRun> runs;
  for (Candidate& c : h.finished) {
    c.trials_left = 0;
    runs.push_back(c.measured[0]);
  }
  const Machine m = fit(runs, machine());
  const double alone = look_ahead(h.finished, m, {}).beliefs[0].seconds;
  MeasuredRun disturbed = h.finished[0].measured[0];
  disturbed.step_s *= 2;
  disturbed.contended = true;
  disturbed.step_error = 0.4;
  h.finished[0].measured.insert(h.finished[0].measured.begin(), disturbed);
  EXPECT_NEAR(look_ahead(h.finished, m, {}).beliefs[0].seconds / alone, 1, 0.01);
}

TEST(Suggest, StoppingAtTwoPercentLeavesAboutThatMuch) {
  // The promise of --until: the true regret equals the expected one, on average over machines.
  const uint64_t seed = fresh_seed();
  constexpr int kMachines = 24;
  double expected = 0, left = 0;
  for (int i = 0; i < kMachines; ++i) {
    const Hidden h = demo_space(seed + static_cast<uint64_t>(i), 0.04, 0.01);
    std::vector<Candidate> known = h.finished;
    for (Candidate& c : known) c.measured.clear();
    std::vector<MeasuredRun> runs;
    while (true) {
      const Outlook o = look_ahead(known, runs.empty() ? machine() : fit(runs, machine()), {.draws = 1024});
      if (o.regret < 0.02 || o.next.empty()) {
        expected += o.regret / kMachines;
        left += (1 - *std::min_element(h.truth.begin(), h.truth.end()) / h.truth[o.choice]) / kMachines;
        break;
      }
      for (const Suggestion& s : o.next) {
        known[s.candidate].measured = h.finished[s.candidate].measured;
        known[s.candidate].trials_left = 0;
        runs.push_back(known[s.candidate].measured[0]);
      }
    }
  }
  std::printf("expected regret %.2f %%, left %.2f %%\n", 100 * expected, 100 * left);
  EXPECT_LT(expected, 0.02);
  EXPECT_LT(left, 0.02);
}

// Trials to 2 % regret, summed over the same machines.
struct Plays {
  double suggested = 0, random = 0, blind = 0;
  double beyond = 0, beyond_squared = 0;  // suggested trials beyond half of random order's
  int machines = 0;

  void add(const Rehearsal& r) {
    const auto trials = [](const std::vector<Play>& p) { return static_cast<double>(p[0].kept(0.02)); };
    const double b = trials(r.suggested) - 0.5 * trials(r.random);
    suggested += trials(r.suggested), random += trials(r.random), blind += trials(r.blind);
    beyond += b, beyond_squared += b * b, ++machines;
  }
  /// Half on average over many machines, within two standard errors.
  bool half() const {
    const double n = machines, mean = beyond / n;
    return mean <= 2 * std::sqrt((beyond_squared / n - mean * mean) / (n - 1)) && suggested <= 0.6 * random;
  }
};

TEST(Suggest, TwoPercentRegretNeedsHalfOfTheTrialsOfRandomOrder) {
  const uint64_t seed = fresh_seed();
  Plays all;
  // A dozen machines vary by chance (0.36 to 0.69): a failure is confirmed on more.
  while (all.machines < 12 || (!all.half() && all.machines < 48)) {
    const uint64_t own = seed + static_cast<uint64_t>(all.machines);
    const Hidden h = demo_space(own, 0.05, 0.01);
    all.add(
        rehearse(h.finished, machine(), {.seeds = 1, .seed = own, .first = 3, .round = 1, .enough = 0.02}));
  }
  std::printf("trials to 2 %% regret on %d machines: suggested %.1f, random order %.1f, without a fit %.1f\n",
              all.machines, all.suggested / all.machines, all.random / all.machines,
              all.blind / all.machines);
  EXPECT_TRUE(all.half());
}

}  // namespace
}  // namespace isobar::perf
