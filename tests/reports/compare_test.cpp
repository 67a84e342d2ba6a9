// Comparisons of result sets: statistics against independent computations, and verdicts on sets with known
// changes.
#include "reports/comparison/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reports/comparison/statistics.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
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
    EXPECT_EQ(c.between.df > 0, repetitions > 1);
    ASSERT_EQ(c.changes.size(), 20u);
    size_t wrong = 0;
    for (const Change& x : c.changes) {
      EXPECT_EQ(x.runs_before, static_cast<size_t>(repetitions));
      const bool changed = std::abs(std::log(x.ratio)) > 0.1;
      if (changed) {
        EXPECT_EQ(x.verdict, kFaster) << x.label;
        EXPECT_LT(x.upper, 1);
      } else {
        wrong += x.verdict == kFaster || x.verdict == kSlower;
      }
    }
    EXPECT_EQ(c.count(kFaster) + c.count(kSlower) - wrong, 10u);
    EXPECT_LE(wrong, 1u);  // one of 20 comparisons has any; two in one of them are once in thousands
    EXPECT_NE(sentence_of(c).find("10 faster, "), std::string::npos) << sentence_of(c);
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

// A machine's noise as it is, of which a comparison sees runs alone.
struct Noisy {
  double day, run, steps;  // log sigma of a set, of a run within it, and what its own steps show
};
constexpr Noisy kQuiet{0.005, 0.01, 0.004}, kBusy{0.15, 0.2, 0.2};

struct World {
  BeforeAfter groups;
  std::map<std::string, double> truth;  // by specification
};

World world(const Noisy& n, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const auto one_of = [&](std::initializer_list<double> of) { return *(of.begin() + rng() % of.size()); };
  World w;
  const auto specs = static_cast<int>(one_of({1, 3, 8})), repetitions = static_cast<int>(one_of({1, 2, 4}));
  const double days[] = {n.day * normal(rng), n.day * normal(rng)};
  for (int s = 0; s < specs; ++s) {
    const std::string key = "s" + std::to_string(s);
    w.truth[key] = one_of({1, 1, 1.02, 0.9, 1.3});
    auto& [before, after] = w.groups[key];
    for (int r = 0; r < repetitions; ++r)
      for (const bool late : {false, true}) {
        const double error = n.steps * std::exp(0.2 * normal(rng));
        (late ? after : before)
            .push_back({key,
                        key,
                        "",
                        (late ? std::log(w.truth[key]) : 0) + days[late] + n.run * normal(rng),
                        {error * error, 7}});
      }
  }
  return w;
}

bool is_false(const std::string& verdict, double truth) {
  if (verdict == kFaster) return truth >= 1;
  if (verdict == kSlower) return truth <= 1;
  return verdict == kAsFast && (truth > 1 + kTolerance || truth < 1 / (1 + kTolerance));
}

// 1,000 comparisons on each machine, whose truth is known.
TEST(Compare, FalseVerdictsAreRareOnQuietAndBusyMachines) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  for (const Noisy& n : {kQuiet, kBusy}) {
    int with_false = 0, small = 0, small_untold = 0, large = 0, large_told = 0;
    for (int i = 0; i < 1000; ++i) {
      const World w = world(n, rng);
      const Comparison c = compare(w.groups);
      bool any = false;
      for (const Change& x : c.changes) {
        const double truth = w.truth.at(x.label);
        any = any || is_false(x.verdict, truth);
        if (truth == 1.02 && truth - 1 < x.sees() / 2)
          ++small, small_untold += x.verdict == kCannotTell || x.verdict == kAsFast;
        if (truth == 1.3) ++large, large_told += x.verdict == kSlower;
      }
      with_false += any;
      EXPECT_EQ(c.busy > 0, n.day == kBusy.day);
    }
    EXPECT_LE(with_false, 50) << "5 %";
    EXPECT_GE(small_untold, 0.9 * small) << "2 % is below what these see";
    if (n.day == kQuiet.day) {
      EXPECT_GE(large_told, 0.99 * large);
    }
    RecordProperty(n.day == kQuiet.day ? "quiet_false" : "busy_false", with_false);
  }
}

TEST(Compare, NoTwoOfItsStatementsContradict) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> u;
  for (int i = 0; i < 1000; ++i) {
    const double scale = std::exp(6 * u(rng) - 5);
    Comparison c = compare(world({0.3 * scale * u(rng), scale * u(rng), scale * u(rng)}, rng).groups);
    c.before = "a", c.after = "b";
    const std::string said = sentence_of(c);
    const bool less = said.find("less time") != std::string::npos,
               more = said.find("more time") != std::string::npos;
    EXPECT_FALSE(less && (c.count(kSlower) > 0 || c.count(kFaster) == 0 || c.upper >= 1)) << said;
    EXPECT_FALSE(more && (c.count(kFaster) > 0 || c.count(kSlower) == 0 || c.lower <= 1)) << said;
    size_t counted = 0;
    for (const char* verdict : {kFaster, kSlower, kAsFast, kCannotTell}) counted += c.count(verdict);
    EXPECT_EQ(counted, c.changes.size());
    for (const Change& x : c.changes) {
      EXPECT_EQ(x.verdict == kSlower, x.lower > 1);
      EXPECT_EQ(x.verdict == kFaster, x.upper < 1);
      if (x.verdict == kCannotTell) {
        EXPECT_LE(std::max(x.ratio, 1 / x.ratio) - 1, x.sees()) << "a change that it says it would see";
      }
      // A check is never surer than the comparison.
      const std::string checked = verdict_of(x, 0.1, 0.1);
      EXPECT_FALSE(checked == kSlower && x.verdict != kSlower);
      EXPECT_FALSE(checked == kAsFast && (x.lower < 1 / 1.1 || x.upper > 1.1));
    }
  }
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
}  // namespace isobar::report
