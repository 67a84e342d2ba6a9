// How long a step takes and how sure that is, from terms that are already counted.
//
//   Estimate e = estimate(spec, terms_of(spec, machine, host), machine);
//   e.seconds (e.lower ... e.upper in 80 of 100 cases)
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/terms.h"

namespace isobar {

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
/// Seconds of a step that takes `physics` by the coefficients alone.
double expected_seconds(const StepView& step, double physics, const ErrorSources& error);
/// What of a step lies outside of the runs that the machine was fitted to, for people.
std::vector<std::string> extrapolations(const StepView& step, const Machine& machine);
/// Of log coefficients, then known effects: what a fit left unknown, or without one the machine file's
/// intervals. Square, by columns.
std::vector<double> covariance_of(const Machine& machine);

}  // namespace isobar
