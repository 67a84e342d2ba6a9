// How long will a step take, how sure is that, and will it fit.
//
//   Prediction p = predict(spec, load_machine("fitted.yaml"), {});
//   p.step_s (p.lower ... p.upper in 80 of 100 cases), p.terms, p.memory
//
// Throws std::logic_error for a prediction above the machine's physical ceiling: that is a bug in the machine
// file or in the model, never a result.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/plan.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/checkpoint.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/term.h"

namespace isobar {

struct PredictOptions {
  int64_t ranks_on_host = 0;  // 0: all ranks
  int64_t threads = 0;        // 0: run.threads of the specification, else cores / ranks on this host
  Workspace workspace;        // of the backend that will run it, for its share of the memory
};

/// Throws std::logic_error for a step that is shorter than the machine's peaks allow.
void refuse_above_ceiling(double seconds, double ceiling_s, const Machine& m);

struct Prediction {
  double step_s = 0, lower = 0, upper = 0;  // seconds of one optimizer step, 80 % interval
  double samples_per_s = 0;
  double correction = 1;    // factor by which runs of this kind deviated from the counted terms
  std::vector<Term> terms;  // add up to step_s
  std::vector<std::pair<std::string, int64_t>> memory;  // bytes of the fullest rank by category
  int64_t memory_total = 0;                             // bytes of the fullest rank
  double flops = 0;                                     // matrix FLOPs of the slowest stage's step
  double ceiling_s = 0;                                 // no machine of these peaks is faster
  CheckpointCost checkpoint;                            // beside the steps
  Conditions where;
  std::vector<std::string> warnings;
};

Prediction predict(const RunSpec& spec, const Machine& machine, const PredictOptions& options);

/// Step time and its 80 % interval for terms that are already counted.
struct Estimate {
  double physics = 0;  // counts times coefficients
  double seconds = 0;  // with what groups of runs deviate from them
  double lower = 0, upper = 0;
};
Estimate estimate(const RunSpec& spec, const StepTerms& terms, const Machine& machine);
Estimate estimate(const StepView& step, const Machine& machine);

/// Where the error of an estimate's logarithm comes from, so that errors that two estimates share can be told
/// from their own (suggest.h). Variances add up; the interval is kNormal80 times their root.
struct ErrorSources {
  std::vector<double> gradient;          // d log(seconds) / d (log coefficient, known effect), ...
  double scale = 1;                      // ... whose covariance_of() and the spread are widened by this
  double spread = 0;                     // log sigma of each specification for itself
  double deviation = 0;                  // sum of its known effects
  std::map<std::string, double> groups;  // log sigma of effects that no run was in, by name
  std::map<std::string, double> far;     // log sigma by quantity that lies outside of what was fitted
};
ErrorSources error_sources(const RunSpec& spec, const StepTerms& terms, const Machine& machine);
ErrorSources error_sources(const StepView& step, const Machine& machine);
/// What of a step lies outside of the runs that the machine was fitted to, for people.
std::vector<std::string> extrapolations(const StepView& step, const Machine& machine);
/// Of log coefficients, then known effects: what a fit left unknown, or without one the machine file's
/// intervals. Square, by columns.
std::vector<double> covariance_of(const Machine& machine);

}  // namespace isobar
