// The distance between cores in the prices: its cost in steps of several threads or ranks, the fit from runs
// at both distances, and reported assumptions.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "model/base/error.h"
#include "model/base/measurement.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/referee/holdout.h"
#include "perfmodel/step/cost.h"
#include "support.h"

namespace isobar {
namespace {

constexpr double kNear = 60, kFar = 340;  // ns

RunSpec emulator(int64_t batch, int64_t ranks, int64_t threads) {
  RunSpec s;
  s.net.set_kind(MlpSpec::kKind);
  s.train.global_batch = batch;
  s.train.loss = "mse";
  s.layout.dp = ranks;
  s.run.threads = threads;
  validate(s);
  return s;
}

double step(const RunSpec& s, const Machine& m, double trip_ns) {
  return step_seconds(terms_of(s, m, {.threads = s.run.threads, .core_trip_ns = trip_ns}), m.values());
}

// Two threads pay for a team for each op that is cut, and for the lines of products' operands; two ranks for
// the messages of an all-reduce without concurrent compute. One thread alone pays nothing.
TEST(CoreTrip, CostsWhatIsCounted) {
  Machine m = test::machine();
  m[Coef::hops_fork].value = 5, m[Coef::hops_line].value = 0.03, m[Coef::hops_message].value = 7;
  m[Coef::imbalance].value = m[Coef::overlap_slowdown].value = 1e-12;
  const double more = 1e-9 * (kFar - kNear);
  EXPECT_EQ(step(emulator(1024, 1, 1), m, kFar), step(emulator(1024, 1, 1), m, kNear));

  const RunSpec threads = emulator(1 << 16, 1, 2);  // enough rows for every op to be cut
  const Counts counted = terms_of(threads, m, {.threads = 2}).total;
  const double expected =
      more * (5 * counted[index_of(Coef::fork)] + 0.03 * counted[index_of(Coef::gemm_bytes)] / 64 / 2);
  EXPECT_NEAR((step(threads, m, kFar) - step(threads, m, kNear)) / expected, 1, 1e-6);
  EXPECT_GT(expected, 10 * 5 * more) << "some ten ops and more";

  const RunSpec ranks = emulator(1024, 2, 1);
  const double messages = terms_of(ranks, m, {.threads = 1}).total[index_of(Coef::message_host)];
  EXPECT_GE(messages, 2);
  EXPECT_NEAR((step(ranks, m, kFar) - step(ranks, m, kNear)) / (more * 7 * messages), 1, 1e-6);
}

TEST(CoreTrip, IsTheRunsElseTheMachines) {
  Machine m = test::machine();
  const RunSpec s = emulator(256, 1, 2);
  EXPECT_EQ(conditions_of(s, m).core_trip_s, 0);
  m.identity.core_trip_ns = 77;
  EXPECT_DOUBLE_EQ(conditions_of(s, m).core_trip_s, 77e-9);
  EXPECT_DOUBLE_EQ(conditions_of(s, m, {.core_trip_ns = 300}).core_trip_s, 300e-9);
  EXPECT_EQ(parse_machine(to_yaml(m), "m.yaml").identity.core_trip_ns, 77);
  EXPECT_THROW(
      parse_machine("identity: {cores: 2, memory_bytes: 1000000000, cache_bytes: 1, core_trip_ns: -3}\n",
                    "m.yaml"),
      ConfigError);
}

// Runs of a machine with other prices than assumed, at either distance by chance. The fit predicts settings
// without runs at both; a fit without the distances is far off.
TEST(CoreTrip, IsLearntFromNearAndFarRuns) {
  Machine truth = test::machine();
  truth[Coef::hops_fork].value = 8, truth[Coef::hops_line].value = 0.05, truth[Coef::hops_message].value = 10;
  std::mt19937_64 random(5);
  std::normal_distribution<double> noise(0, 0.01);
  std::vector<MeasuredRun> runs, untold;
  for (const char* amp : {"none", "bf16"})
    for (const int64_t batch : {64, 128, 256, 512, 1024, 2048})
      for (const int64_t ranks : {1, 2})
        for (int repetition = 0; repetition < 3; ++repetition) {
          RunSpec s = emulator(batch, ranks, 2 / ranks);
          s.policy.amp = amp;
          const double trip = random() % 2 ? kNear : kFar;
          runs.push_back({.id = std::to_string(runs.size()),
                          .spec = s,
                          .host = {.ranks_on_host = ranks, .threads = 2 / ranks, .core_trip_ns = trip},
                          .step_s = step(s, truth, trip) * std::exp(noise(random)),
                          .step_error = 0.01});
          untold.push_back(runs.back());
          untold.back().host.core_trip_ns = 0;
        }
  const HeldOut parts = split_runs(runs, 0.5, 3);
  const Machine fitted = fit(pick(runs, parts.train), test::machine(), {});
  const Holdout h = hold_out(pick(runs, parts.test), fitted);
  EXPECT_LT(h.median_error, 0.03);
  EXPECT_LT(h.repeat_error, 0.03) << "near and far ones are no repetitions of one another";
  EXPECT_GT(h.coverage, 0.7);
  EXPECT_GT(
      hold_out(pick(untold, parts.test), fit(pick(untold, parts.train), test::machine(), {})).median_error,
      2 * h.median_error);

  // Without a distance in the machine file the runs' is used, and predictions report the assumption.
  const double assumed = fitted.identity.core_trip_ns;
  EXPECT_TRUE(assumed == kNear || assumed == kFar) << assumed;
  const auto warned = [&](const HostShare& host) {
    for (const std::string& w : predict(emulator(256, 1, 2), fitted, {.host = host}).warnings)
      if (w.find("priced for cores") != std::string::npos) return w;
    return std::string();
  };
  EXPECT_NE(warned({}).find("found them 60 to 340 apart"), std::string::npos) << warned({});
  EXPECT_EQ(warned({.core_trip_ns = kFar}), "") << "of a run that was measured it is known";
}

TEST(CoreTrip, RepetitionsLieEquallyFar) {
  EXPECT_TRUE(equally_far(55, 80) && equally_far(80, 55) && equally_far(0, 0));
  EXPECT_FALSE(equally_far(55, 340) || equally_far(340, 55) || equally_far(0, 60));
}

}  // namespace
}  // namespace isobar
