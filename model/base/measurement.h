// How sure a run's step time is: from its own steps, and from how far repetitions of one run differ. All on a
// log scale, so that 0.02 is two percent.
//
//   double own = own_error(steps, stats, statistic);            // of this run
//   RunToRun between = run_to_run(logs_of_repetitions);         // of the sweep
//   hypot(own, between.sigma)                                   // never zero
//
// Own steps. What disturbs a step disturbs its neighbours too, so n steps are worth fewer than n: consecutive
// batches of them are nearly independent, and the error of the whole is the deviation of the batches' own
// statistics over the square root of their number (batch means: Law, Simulation Modeling and
// Analysis, 9.5.3). With too few steps for that, the error is that of an order statistic of normal steps,
//   sqrt(q (1 - q)) / phi(z_q) * sigma / sqrt(min(n, 4)),   q = 0.5: 1.2533, q = 0.1 (and the least): 1.7094,
// at most four steps counting as independent; sigma from p10 to p90 for a median, from p10 to the median for
// the low ones, which disturbances do not reach.
//
// Between runs. s^2 = (k a^2 + sum of squares of repetitions about their mean) / (k + degrees of freedom):
// what repetitions showed, drawn towards an assumed a = 2 % that weighs like k = 2 of them.
//
// A contended run (bench/sweep/contention.h) was slowed as a whole by an unknown share of what its steps
// show: its error is the scatter of one step, log(p90 / p10) / (2 * 1.2816), however many there are. The fit
// weighs a run by 1 / (spread of its kind^2 + error^2): at p90 = 2 p10 beside a spread of 5 % by 1 / 30.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/step_stats.h"

namespace isobar {

inline constexpr double kNormal80 = 1.2815515655446004;  // 80 % of a normal lie within so many sigmas
inline constexpr double kAssumedRunToRun = 0.02;         // log sigma between repetitions before any was seen

struct Noise {  // of a log mean or order statistic
  double variance = 0, df = 0;
};
/// From batches of consecutive steps (seconds, in order, warm-up left out); {NaN, 0}: fewer than eight steps.
Noise noise_inside(const std::vector<double>& steps, Statistic statistic);

/// Log sigma of `statistic` by the run's own steps; `steps` may be empty where they were not kept. 0: nothing
/// is known of them.
double own_error(const std::vector<double>& steps, const StepStats& stats, Statistic statistic);
/// Log sigma of a contended run.
double contended_error(const StepStats& stats);

/// Whether two runs on such cores are repetitions of one another: round trips of a cache line between their
/// cores (model/engine/core_hops.h) vary by a tenth or two inside a core complex, and fourfold beyond.
inline bool equally_far(double trip_ns, double other_ns) {
  return trip_ns <= 1.5 * other_ns && other_ns <= 1.5 * trip_ns;
}

struct RunToRun {
  double sigma = kAssumedRunToRun;  // log, of one repetition
  int64_t df = 0;                   // repetitions behind it; 0: assumed
};
/// Logs of the step times of repetitions, one list for each specification.
RunToRun run_to_run(const std::vector<std::vector<double>>& repetitions);

}  // namespace isobar
