// Uncertainty of a run's step time: from its own steps, and from how far repetitions of a run differ. All on
// a log scale, so that 0.02 is two percent.
//
//   double own = own_error(steps, stats, statistic);            // of this run
//   RunToRun between = run_to_run(logs_of_repetitions);         // of the sweep
//   hypot(own, between.sigma)                                   // never zero
//
// Own steps. A disturbance hits neighbouring steps together, so n steps are worth fewer than n independent
// ones. Batches of consecutive steps are nearly independent: the error is the deviation of their statistics
// over the square root of their number (batch means: Law, Simulation Modeling and Analysis, 9.5.3). With too
// few steps for that, the error is that of an order statistic of normal steps,
//   sqrt(q (1 - q)) / phi(z_q) * sigma / sqrt(min(n, 4)),   q = 0.5: 1.2533, q = 0.1 (and the least): 1.7094,
// at most four steps counting as independent. sigma comes from p10 to p90 for a median, and from p10 to the
// median for lower statistics, which disturbances do not reach.
//
// Between runs. s^2 = (k a^2 + sum of squares of repetitions about their mean) / (k + degrees of freedom):
// measured repetitions, shrunk towards an assumed a = 2 % that weighs like k = 2 of them.
//
// A contended or busy run (model/records/contention.h) was slowed as a whole by an unknown share of what its
// steps show. Its error is the scatter of one step, log(p90 / p10) / (2 * 1.2816), whatever their number. The
// fit weighs a run by 1 / (spread of its kind^2 + error^2), so a contended one counts little.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/step_stats.h"

namespace isobar {

inline constexpr double kNormal80 =
    1.2815515655446004;                           // 80 % of a normal distribution lie within this many sigmas
inline constexpr double kAssumedRunToRun = 0.02;  // log sigma between repetitions before any was measured

struct Noise {  // of a log mean or order statistic
  double variance = 0, df = 0;
};
/// Noise by batches of consecutive steps (seconds, in order, without warm-up); {NaN, 0}: fewer than eight
/// steps.
Noise noise_inside(const std::vector<double>& steps, Statistic statistic);

/// Log sigma of `statistic` by the run's own steps; `steps` may be empty where they were not kept. 0:
/// unknown.
double own_error(const std::vector<double>& steps, const StepStats& stats, Statistic statistic);
/// Log sigma of a contended or busy run.
double contended_error(const StepStats& stats);

struct RunToRun {
  double sigma = kAssumedRunToRun;  // log, of one repetition
  int64_t df = 0;                   // repetitions behind it; 0: sigma is assumed
  /// Degrees of freedom for tests: an assumed sigma is a cautious one, and counts like eight.
  double test_df() const { return static_cast<double>(df > 6 ? df + 2 : 8); }
};
/// `repetitions`: logs of step times, one list for each specification.
RunToRun run_to_run(const std::vector<std::vector<double>>& repetitions);

}  // namespace isobar
