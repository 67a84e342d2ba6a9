// Evaluates a fit on runs that it has not seen.
//
//   HeldOut s = split_runs(runs, 0.5, seed);
//   Holdout h = hold_out(pick(runs, s.test), fit(pick(runs, s.train), machine, {}));
//   h.median_error, h.coverage
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/predict.h"

namespace isobar {

struct HeldOut {
  std::vector<size_t> train, test;  // indices, ascending
};

/// Units that must not be split between train and test, or the test would leak.
enum class Together : uint8_t {
  specification,  // repetitions of one run
  layout          // all runs of one layout and policy, for any precision, data and optimizer
};

/// A random part, stratified by every value of every varied key (unless units prevent it).
HeldOut split_runs(const std::vector<MeasuredRun>& runs, double fraction, uint64_t seed,
                   Together together = Together::specification);
std::vector<MeasuredRun> pick(const std::vector<MeasuredRun>& runs, const std::vector<size_t>& which);

struct HoldoutRow {
  std::string id;
  bool in_fit = false;                                       // the coefficients were fitted to this run
  Interval measured, predicted;                              // seconds
  bool contended = false;                                    // the measurement was disturbed
  std::vector<Term> terms;
  double error() const { return predicted.value / measured.value - 1; }
  bool inside() const { return predicted.holds(measured.value); }
};

struct Holdout {
  std::vector<HoldoutRow> rows;
  double median_error = 0, mape = 0, p90 = 0;  // of |error|
  double bias = 0;                             // mean error
  double coverage = 0;                         // share of runs inside their 80 % interval
  double rank_correlation = 0;                 // Spearman
  double regret = 0;  // of the predicted best: shortfall of its measured throughput from the best

  // With repetitions (settings < rows): disturbances of single runs on shared machines are no errors of a
  // prediction, and medians have fewer.
  size_t settings = 0;        // specifications with an uncontended run
  double settings_error = 0;  // median of |median of the repetitions' predicted / measured - 1|
  double repeat_error = 0;  // median of |run / median of its other repetitions - 1|: the error of predicting
                            // runs by their repetitions
};
Holdout hold_out(const std::vector<MeasuredRun>& runs, const Machine& machine);

/// holdout.json: {machine, statistic, held_out: {...}, fitted: {...}, runs: [{id, in_fit, contended,
/// measured_s, measured_lo_s, measured_hi_s, predicted_s, lo_s, hi_s, terms}]}.
nlohmann::json holdout_json(const Machine& machine, const Holdout& fitted, const Holdout& held_out);

}  // namespace isobar
