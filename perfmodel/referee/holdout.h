// Evaluates a fit on runs that it has not seen.
//
//   HeldOut s = split_runs(runs, 0.5, seed);
//   Holdout h = hold_out(pick(runs, s.test), fit(pick(runs, s.train), machine));
//   h.median_error, h.coverage
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/settings_fit.h"

namespace isobar::perf {

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
  double regret = 0;  // of the predicted best: shortfall of its measured throughput from the best

  // With repetitions (settings < rows): disturbances of single runs on shared machines are no errors of a
  // prediction, and medians have fewer.
  size_t settings = 0;        // specifications with an uncontended run
  double settings_error = 0;  // median of |median of the repetitions' predicted / measured - 1|
  double repeat_error = 0;  // median of |run / median of its other repetitions - 1|: the error of predicting
                            // runs by their repetitions
};
Holdout hold_out(const std::vector<MeasuredRun>& runs, const Machine& machine);
Holdout hold_out(const std::vector<MeasuredRun>& runs, const SettingsFit& fit);

/// The held-out test over several random parts: one small part says little about an interval.
struct RepeatedHoldout {
  std::vector<double> median_errors, settings_errors;  // of the held-out runs; of their settings; ascending
  std::vector<double> regrets;                         // of all runs; ascending
  size_t inside = 0, runs = 0;
  double coverage() const { return static_cast<double>(inside) / static_cast<double>(runs); }
};
RepeatedHoldout repeat_hold_out(const std::vector<MeasuredRun>& runs, const Machine& before,
                                Statistic statistic, const std::vector<HeldOut>& splits);
/// The same by settings alone.
RepeatedHoldout repeat_hold_out(const std::vector<MeasuredRun>& runs, const std::vector<HeldOut>& splits);

/// holdout.json: {machine, statistic, held_out: {...}, fitted: {...}, runs: [{id, in_fit, contended,
/// measured_s, measured_lo_s, measured_hi_s, predicted_s, lo_s, hi_s, terms}]}.
nlohmann::json holdout_json(const Machine& machine, const Holdout& fitted, const Holdout& held_out);
nlohmann::json holdout_json(Statistic statistic, const Holdout& fitted, const Holdout& held_out);

// Measured against predicted memory, for runs on cores.

struct MemoryFit {
  size_t runs = 0, same = 0;  // with a known arena; of these, with the same bytes when planned here
  size_t peaks = 0;           // runs with a known peak of their processes
  double median_error = 0, p90 = 0, bias = 0;  // of plan and Coef::process against that peak
};
/// `workspace`: of the CPU back end, by threads.
MemoryFit memory_of(const std::vector<MeasuredRun>& runs, const Machine& machine,
                    const std::function<plan::Workspace(int threads)>& workspace);

/// "Memory: …", a line or two; "": nothing was measured.
std::string text_of(const MemoryFit& m);

}  // namespace isobar::perf
