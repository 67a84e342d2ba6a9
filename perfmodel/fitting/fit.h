// Coefficients from measured runs.
//
//   Machine fitted = fit(runs, calibrated);
//   Prediction p = predict(spec, fitted, {});        // predict.h: with an interval
//
// Runs are priced by the closed form of layouts (layout_model.h).
//
// First come undisturbed op times and checkpoints, then whole steps; the machine's coefficients are the
// prior, so twenty runs suffice. The remaining spread is learnt from leave-one-out errors and kept in the
// machine's `fit` section.
//
// A run weighs 1 / (spread of its kind^2 + step_error^2). A contended run has the error of one of its steps,
// so it hardly counts; the learnt spread and the interval exclude such runs.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/base/measurement.h"
#include "model/base/spec/spec.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/conditions.h"
#include "perfmodel/step/reading.h"

namespace isobar::perf {

struct MeasuredOp {
  std::string path, lane;
  int64_t count = 0;   // executions in the run
  double seconds = 0;  // total of all executions
};

struct MeasuredRun {
  std::string id;
  RunSpec spec;
  HostShare host{.ranks_on_host = 1, .threads = 1};
  double step_s = 0;                     // the statistic of its steps that all runs have
  double step_error = 0;                 // its log sigma from the run's own steps; 0: unknown
  double run_to_run = kAssumedRunToRun;  // log sigma between repetitions of one run
  bool contended = false;                // slowed by something else; step_error may reflect it
  int64_t arena_bytes = 0;               // of rank 0, as planned by the run; 0: unknown
  int64_t peak_rss_bytes = 0;            // on cores; 0: unknown
  int64_t process_bytes = 0;             // on an accelerator, beside plan and transfers; 0: unknown
  std::vector<MeasuredOp> ops;           // may be empty
  double outside_share = 0;              // share of step time outside the compute lane's ops; 0: unknown
  double checkpoint_s = 0;               // of one, the same statistic; 0: it wrote none
  double expert_imbalance = 0;           // median of its steps; 0: unknown, or no experts
  std::string campaign;  // on accelerators: whose measurements, with which engine; "": unknown
};

/// `statistic`: of the runs' step_s, for the record. Throws ConfigError if there is nothing to fit, or if a
/// run was faster than the machine's peaks allow. Deterministic.
Machine fit(const std::vector<MeasuredRun>& runs, const Machine& machine, Statistic statistic = kStatistic);

/// Log sigma of the measured step time around that of many repetitions (model/base/measurement.h).
double measurement_error(const MeasuredRun& run);

/// A step as the fit and prediction intervals see it, on cores or accelerators.
struct StepView {
  std::function<double(const Counts&)> seconds;  // at any prices
  double ceiling_s = 0;                          // least time by the machine's peaks
  std::string kind;                              // runs of one kind have equal scatter
  std::vector<std::string> effects;              // groups that deviate together, see effects_of
  std::map<std::string, double> quantities;      // quantities whose fitted range defines extrapolation
  double unsaid = 0;  // log sigma by how uneven experts are, if a prediction takes that from a fit
};

/// one_rank | one_rank_workers | ranks | ranks_workers: kinds of runs on cores with different residual
/// spread.
std::string kind_of(const RunSpec& spec, const Conditions& where);
/// Groups of runs that deviate from the counted terms together, "family: which": shapes, ways of sharing a
/// host, and layouts. A group without runs deviates by an unknown amount, which widens the interval.
std::vector<std::string> effects_of(const RunSpec& spec, const Conditions& where);
std::string family_of(const std::string& effect);
/// The quantities whose fitted range defines extrapolation.
std::map<std::string, double> quantities_of(const RunSpec& spec, const Conditions& where);
/// Those that determine its ops' shapes: also the ranges of steps with timed ops (Machine::timed).
std::map<std::string, double> op_quantities_of(const RunSpec& spec, int64_t threads);

}  // namespace isobar::perf
