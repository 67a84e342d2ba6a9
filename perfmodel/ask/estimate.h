// Step time and its uncertainty.
//
//   Estimate e = estimate(models.view(spec, machine, host), machine);
//   e.seconds (e.lower ... e.upper in 80 of 100 cases)
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// Step time with its 80 % interval.
struct Estimate {
  double physics = 0;  // counts times coefficients
  double seconds = 0;  // with known effects of groups of runs
  double lower = 0, upper = 0;
};
Estimate estimate(const StepView& step, const Machine& machine);
/// The same around `physics` seconds, which the replay found.
Estimate estimate(const StepView& step, const Machine& machine, double physics);

/// The error of a prediction's logarithm, by source.
struct ErrorParts {
  std::vector<double> shared;  // sigma of each source that all layouts on this machine share, with its sign
  double own = 0;              // sigma of the layout alone
  double sigma() const;
};
/// The sources of error of an estimate's logarithm, so that errors shared by two estimates can be separated
/// (suggest.h). Variances add; the interval is kNormal80 times their root.
struct ErrorSources {
  std::vector<double> gradient;          // d log(seconds) / d (log coefficient, known effect); …
  double scale = 1;                      // … covariance_of() and the spread are scaled by this
  double spread = 0;                     // log sigma of each specification
  double deviation = 0;                  // sum of its known effects
  std::map<std::string, double> groups;  // log sigma of effects without runs, by name
  std::map<std::string, double> far;     // log sigma by quantity outside the fitted range, or not said
};
ErrorSources error_sources(const StepView& step, const Machine& machine);
/// Seconds of a step with `physics` seconds by coefficients alone.
double expected_seconds(const StepView& step, double physics, const ErrorSources& error);
/// Quantities of a step outside the fitted range, for display.
std::vector<std::string> extrapolations(const StepView& step, const Machine& machine);
/// Covariance of log coefficients, then known effects: from the fit, or from the machine file's intervals.
/// Square, by columns.
std::vector<double> covariance_of(const Machine& machine);

}  // namespace isobar::perf
