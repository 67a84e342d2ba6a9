// Coefficients from measured runs.
//
//   Machine fitted = fit(runs, calibrated, {});
//   Prediction p = predict(spec, fitted, {});        // predict.h: with an interval
//
// Runs on accelerators are priced by the closed form of layouts (layout_model.h), all others by their plans.
//
// Op times of the runs first (where a run has them and nothing disturbs them) and their checkpoints, then
// whole steps; the machine's own coefficients are the prior, so twenty runs are enough. What spread remains
// is learnt from leave-one-out errors and kept in the machine's `fit` section.
//
// A run weighs 1 / (spread of its kind^2 + step_error^2). The error of a contended one is that of a single of
// its steps, so it hardly counts; the spread that is learnt and the interval leave such runs out.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/base/measurement.h"
#include "model/base/spec.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/terms.h"

namespace isobar {

struct MeasuredOp {
  std::string path, lane;
  int64_t count = 0;   // executions in the run
  double seconds = 0;  // of all of them
};

struct MeasuredRun {
  std::string id;
  RunSpec spec;
  HostShare host{.ranks_on_host = 1, .threads = 1};
  double step_s = 0;                     // FitOptions::statistic of its steps
  double step_error = 0;                 // log sigma of it by its own steps; 0: not known
  double run_to_run = kAssumedRunToRun;  // log sigma between repetitions of one run
  bool contended = false;                // something else slowed it; step_error says by how much perhaps
  int64_t arena_bytes = 0;               // of rank 0, as the run planned it; 0: not known
  int64_t peak_rss_bytes = 0;            // 0: not known
  std::vector<MeasuredOp> ops;           // may be empty
  double outside_share = 0;  // of its steps' time, outside all ops of the compute lane; 0: not known
  double checkpoint_s = 0;   // of one, the same statistic; 0: it wrote none
  std::string campaign;      // on accelerators: who measured it with which engine; "": not known
};

struct FitOptions {
  double drift = 0.2;                // log sigma between a benchmark and the same work inside a step
  Statistic statistic = kStatistic;  // what step_s of the runs is, for the record
};

/// Throws ConfigError when there is nothing to fit to, or when a run was faster than the machine's peaks
/// allow. Deterministic.
Machine fit(const std::vector<MeasuredRun>& runs, const Machine& machine, const FitOptions& options);

/// Log sigma of the measured step time about what many repetitions would show (model/base/measurement.h).
double measurement_error(const MeasuredRun& run);

/// One step as the fit and the interval of a prediction see it, on cores or on accelerators.
struct StepView {
  std::function<double(const Counts&)> seconds;  // at any prices
  double ceiling_s = 0;                          // no machine of these peaks is faster
  std::string kind;                              // runs of one kind scatter alike
  std::vector<std::string> effects;              // groups that deviate together, see effects_of
  std::map<std::string, double> quantities;      // by whose range a fit knows that it is asked to extrapolate
};
/// `terms` must stay.
StepView view_of(const RunSpec& spec, const StepTerms& terms, const Machine& machine);

/// Everything countable of one run.
StepTerms terms_of(const RunSpec& spec, const Machine& machine, const HostShare& host);
/// Bytes of the last-level cache that one rank can count on.
double cache_share(const Machine& machine, int64_t ranks_on_host);
/// one_rank | one_rank_workers | ranks | ranks_workers: kinds whose residuals spread differently.
std::string kind_of(const StepTerms& terms);
/// Groups of runs that deviate from the counted terms together, "family: which": kernels like some shapes
/// better than others (shape), hosts some ways of being shared (host), and how a model is cut brings
/// waits of its own (layout). A group that no run was in
/// deviates by an unknown amount, and widens the interval.
std::vector<std::string> effects_of(const RunSpec& spec, const StepTerms& terms);
std::string family_of(const std::string& effect);
/// The quantities by whose range a fit knows when it is asked to extrapolate.
std::map<std::string, double> quantities_of(const RunSpec& spec, const StepTerms& terms);
/// Those of them that its ops' shapes follow from: what steps in which ops are timed vary, too
/// (Machine::timed).
std::map<std::string, double> op_quantities_of(const RunSpec& spec, int64_t threads);

}  // namespace isobar
