// Step times and how sure they are, against runs whose truth is known.
#include "model/base/measurement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/base/error.h"

namespace isobar {
namespace {

TEST(StepStatistics, AreNumpysAndGoByTheirNames) {
  const StepStats s = step_stats({5, 1, 4, 2, 3, 10});
  EXPECT_DOUBLE_EQ(s.of(Statistic::median), 3.5);
  EXPECT_DOUBLE_EQ(s.of(Statistic::p10), 1.5);
  EXPECT_DOUBLE_EQ(s.of(Statistic::min), 1);
  EXPECT_DOUBLE_EQ(s.spread(), (7.5 - 1.5) / 3.5);
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(step_stats({}).count, 0);
  for (const std::string& name : statistic_names()) EXPECT_EQ(name_of(statistic_of(name, "f", "k")), name);
  try {
    statistic_of("mean", "m.yaml", "fit.statistic");
    FAIL() << "an unknown statistic was taken for another";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("m.yaml"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("fit.statistic"), std::string::npos) << e.what();
  }
}

// Steps about 50 ms whose logs scatter by 5 %, each like its neighbour by `alike`.
std::vector<double> steps_of(size_t n, double alike, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  double x = normal(random);
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) {
    out.push_back(0.05 * std::exp(0.05 * x));
    x = alike * x + std::sqrt(1 - alike * alike) * normal(random);
  }
  return out;
}

TEST(Measurement, OwnErrorIsThatOfManyRunsWhereStepsAreLikeTheirNeighbours) {
  std::mt19937_64 random(7);
  for (const Statistic s : {Statistic::median, Statistic::p10})
    for (const double alike : {0.0, 0.6}) {
      constexpr int kRuns = 400;
      double sum = 0, squares = 0, said = 0;
      for (int i = 0; i < kRuns; ++i) {
        const std::vector<double> steps = steps_of(64, alike, random);
        const StepStats stats = step_stats(steps);
        const double x = std::log(stats.of(s)), e = own_error(steps, stats, s);
        sum += x / kRuns, squares += x * x / kRuns, said += e * e / kRuns;
      }
      const double truth = std::sqrt(squares - sum * sum);
      EXPECT_GT(std::sqrt(said), 0.7 * truth) << name_of(s) << " " << alike;
      EXPECT_LT(std::sqrt(said), 1.6 * truth) << name_of(s) << " " << alike;
    }
}

TEST(Measurement, OfFewStepsTheSpreadSpeaks) {
  const StepStats s{.median = 0.05, .p10 = 0.048, .p90 = 0.056, .min = 0.047, .count = 5};
  EXPECT_NEAR(own_error({}, s, Statistic::median), 1.2533 * std::log(0.056 / 0.048) / (2 * kNormal80) / 2,
              1e-12);
  EXPECT_NEAR(own_error({}, s, Statistic::p10), 1.7094 * std::log(0.05 / 0.048) / kNormal80 / 2, 1e-12);
  EXPECT_EQ(own_error({}, {.median = 0.05}, Statistic::median), 0) << "one published number";
  EXPECT_GT(contended_error(s), own_error({}, s, Statistic::median));
}

TEST(Measurement, RunToRunIsAssumedUntilRepetitionsShowIt) {
  EXPECT_EQ(run_to_run({}).sigma, kAssumedRunToRun);
  EXPECT_EQ(run_to_run({{1.0}, {2.0}}).df, 0);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 0.06);
  std::vector<std::vector<double>> groups;
  for (int g = 0; g < 100; ++g)
    groups.push_back({g + normal(random), g + normal(random), g + normal(random)});
  const RunToRun r = run_to_run(groups);
  EXPECT_EQ(r.df, 200);
  EXPECT_NEAR(r.sigma, 0.06, 0.008);
  EXPECT_GT(run_to_run({{1.0, 1.0, 1.0}}).sigma, 0) << "repetitions that agree by chance";
}

}  // namespace
}  // namespace isobar
