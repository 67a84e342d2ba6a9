// Comparisons of result sets: statistics against independent computations, and verdicts on sets with known
// changes.
#include "reports/comparison/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reports/comparison/statistics.h"
#include "tests/reports/fixture.h"

namespace isobar {
namespace {

TEST(Statistics, StudentsDistributionIsTheIntegralOfItsDensity) {
  for (const double df : {1.0, 2.5, 7.0, 30.0, 400.0}) {
    const double norm = std::exp(std::lgamma((df + 1) / 2) - std::lgamma(df / 2)) / std::sqrt(df * M_PI);
    const auto density = [&](double x) { return norm * std::pow(1 + x * x / df, -(df + 1) / 2); };
    for (const double t : {0.1, 0.8, 2.0, 4.5}) {
      const int n = 20000;  // Simpson's rule from 0 to t
      double sum = density(0) + density(t);
      for (int i = 1; i < n; ++i) sum += (i % 2 ? 4 : 2) * density(t * i / n);
      const double integral = 0.5 + sum * t / n / 3;
      EXPECT_NEAR(student_cdf(t, df), integral, 1e-10) << t << " " << df;
      EXPECT_NEAR(student_cdf(-t, df), 1 - integral, 1e-10);
      EXPECT_NEAR(student_quantile(2 * integral - 1, df), t, 1e-6);
    }
  }
  EXPECT_NEAR(student_quantile(0.95, 10), 2.228139, 1e-5);  // tabulated value
}

TEST(Statistics, AdjustedValuesDecideAsTheStepUpRuleDoes) {
  std::mt19937_64 rng(std::random_device{}());
  for (int round = 0; round < 50; ++round) {
    std::vector<double> p;
    for (int i = 0; i < 30; ++i) p.push_back(std::pow(std::uniform_real_distribution<>()(rng), 3));
    p.push_back(NAN);
    const std::vector<double> q = adjusted(p);
    EXPECT_TRUE(std::isnan(q.back()));
    for (const double level : {0.01, 0.05, 0.2}) {
      // Benjamini and Hochberg: reject the k smallest, k the largest with p(k) <= k level / n.
      std::vector<double> sorted(p.begin(), p.end() - 1);
      std::sort(sorted.begin(), sorted.end());
      double limit = -1;
      for (size_t k = 0; k < sorted.size(); ++k)
        if (sorted[k] <= static_cast<double>(k + 1) * level / 30) limit = sorted[k];
      for (size_t i = 0; i + 1 < p.size(); ++i) EXPECT_EQ(q[i] <= level, p[i] <= limit) << p[i];
    }
  }
}

// Runs whose steps scatter by 2 % and which differ by 1 % between repetitions; `factor_of_first_half` is the
// true change.
void write_set(const std::filesystem::path& dir, std::mt19937_64& rng, int repetitions, int specs,
               double factor_of_first_half) {
  MadeUpResults made(dir, rng());
  std::normal_distribution<double> normal;
  for (int s = 0; s < specs; ++s)
    for (int rep = 0; rep < repetitions; ++rep) {
      RunSpec spec = MadeUpResults::spec(1, "none", s);
      spec.train.seed = rep;
      const double ms =
          20 * (1 + s) * (s < specs / 2 ? factor_of_first_half : 1) * std::exp(0.01 * normal(rng));
      made.write_timed("s" + std::to_string(s) + "r" + std::to_string(rep), spec, ms * 1e-3, 0.02);
    }
}

TEST(Compare, FindsARealChangeAndLeavesNoiseAlone) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  for (const int repetitions : {1, 3}) {
    TempDir dir;
    write_set(dir.path / "a", rng, repetitions, 20, 1);
    write_set(dir.path / "b", rng, repetitions, 20, 0.8);
    const auto all = compare(collect({dir.path / "a", dir.path / "b"}, {}));
    ASSERT_EQ(all.size(), 1u);
    const Comparison& c = all[0];
    EXPECT_EQ(c.repetitions, repetitions > 1);
    ASSERT_EQ(c.changes.size(), 20u);
    size_t wrong = 0;
    for (const Change& x : c.changes) {
      EXPECT_EQ(x.runs_before, static_cast<size_t>(repetitions));
      const bool changed = std::abs(std::log(x.ratio)) > 0.1;
      if (changed) {
        EXPECT_EQ(x.verdict, "faster") << x.label;
        EXPECT_LT(x.upper, 1);
      } else {
        wrong += x.verdict != "no difference seen";
      }
    }
    EXPECT_EQ(c.count("faster") + c.count("slower") - wrong, 10u);
    // Repetitions reveal the noise between runs; a single run reveals that of its steps only.
    if (repetitions > 1) {
      EXPECT_LE(wrong, 4u);  // 5 % of 10 that did not change; more than 4 happen once in 15,000 times
    }
    EXPECT_NEAR(c.ratio, std::sqrt(0.8), 0.03);
    EXPECT_LT(c.lower, c.ratio);
    EXPECT_GT(c.upper, c.ratio);
  }
}

TEST(Compare, IntervalsHoldTheTruthAsOftenAsTheySay) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  int inside = 0, all = 0;
  for (int round = 0; round < 12; ++round) {
    TempDir dir;
    write_set(dir.path / "a", rng, 2, 10, 1);
    write_set(dir.path / "b", rng, 2, 10, 1);
    const auto comparisons = compare(collect({dir.path / "a", dir.path / "b"}, {}));
    for (const Change& x : comparisons[0].changes) {
      ++all;
      inside += x.lower <= 1 && 1 <= x.upper;
    }
  }
  EXPECT_EQ(all, 120);
  EXPECT_GE(inside, 103);  // 95 % of 120 are 114; fewer than 103 happen once in 10,000 times
}

TEST(Compare, CountsWhatHasNoPartner) {
  TempDir dir;
  std::mt19937_64 rng(1);
  write_set(dir.path / "a", rng, 1, 6, 1);
  write_set(dir.path / "b", rng, 1, 4, 1);
  const Comparison c = compare(collect({dir.path / "a", dir.path / "b"}, {}))[0];
  EXPECT_EQ(c.changes.size(), 4u);
  EXPECT_EQ(c.only_before, 2u);
  EXPECT_EQ(c.only_after, 0u);
}

}  // namespace
}  // namespace isobar
