// What a fit is worth: runs it never saw, predicted and compared.
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

/// What stays together when runs are split, or what is held out would have been seen.
enum class Together : uint8_t {
  specification,  // repetitions of one run
  layout          // all runs of one layout and policy, whatever their precision, data and optimizer
};

/// A random part that holds its share of every value of every key that the runs vary (and that may be split).
HeldOut split_runs(const std::vector<MeasuredRun>& runs, double fraction, uint64_t seed,
                   Together together = Together::specification);
std::vector<MeasuredRun> pick(const std::vector<MeasuredRun>& runs, const std::vector<size_t>& which);

struct HoldoutRow {
  std::string id;
  bool in_fit = false;                                       // the coefficients were fitted to this very run
  double measured = 0, predicted = 0, lower = 0, upper = 0;  // seconds
  double measured_lower = 0, measured_upper = 0;             // 80 % interval of the measurement itself
  bool contended = false;                                    // the measurement was disturbed
  std::vector<Term> terms;
  double error() const { return predicted / measured - 1; }
  bool inside() const { return lower <= measured && measured <= upper; }
};

struct Holdout {
  std::vector<HoldoutRow> rows;
  double median_error = 0, mape = 0, p90 = 0;  // of |error|
  double bias = 0;                             // mean error
  double coverage = 0;                         // share of runs inside their 80 % interval
  double rank_correlation = 0;                 // Spearman
  double regret = 0;  // of whoever takes the first choice: its measured throughput is short of the best by

  // Where specifications were run several times (settings < rows): what a machine shared with others does to
  // one run is no error of a prediction, and the middle of several has less of it.
  size_t settings = 0;        // specifications that have a run that was not contended
  double settings_error = 0;  // median of |median of the repetitions' predicted / measured - 1|
  double repeat_error = 0;  // median of |run / median of its other repetitions - 1|: what foretelling single
                            // runs by themselves would give
};
Holdout hold_out(const std::vector<MeasuredRun>& runs, const Machine& machine);

/// holdout.json: {machine, statistic, held_out: {...}, fitted: {...}, runs: [{id, in_fit, contended,
/// measured_s, measured_lo_s, measured_hi_s, predicted_s, lo_s, hi_s, terms}]}.
nlohmann::json holdout_json(const Machine& machine, const Holdout& fitted, const Holdout& held_out);

}  // namespace isobar
