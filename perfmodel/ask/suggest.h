// The trials to run next, and the expected loss of stopping now.
//
//   Outlook o = look_ahead(candidates, fitted, {.count = 4});
//   o.choice, o.regret                     // take this one now; expected to fall short of the best by 3 %
//   for (const Suggestion& s : o.next) …   // the trials that lower that most, best first
//
// A fit's uncertainty (covariance of coefficients and effects, groups without runs, extrapolation, own spread
// of specifications) makes the candidates' log times a correlated normal distribution, conditioned on
// measured times. A trial's value is the expected decrease of the final choice's regret: the knowledge
// gradient with correlated beliefs (Frazier, Powell and Dayanik 2009, INFORMS J. Computing 21(4)), exact for
// one trial. Each trial of a batch is chosen as if the previous ones had been measured. Candidates are
// compared by samples a second.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/spec.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/settings_fit.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// One specification to choose from.
struct Candidate {
  RunSpec spec;
  StepView view;  // of its step (layout_fit.h), with the machine from which the fit started
  std::vector<MeasuredRun> measured = {};
  int64_t trials_left = 1;  // trials that can still be run; 0: it is not suggested
};

struct SuggestOptions {
  size_t count = 4;      // trials to suggest
  uint64_t seed = 0;     // of the samples for chances and regret
  int64_t draws = 4096;  // samples
};

struct Suggestion {
  size_t candidate = 0;
  double seconds = 0, lower = 0, upper = 0;  // of a step, 80 % interval
  double chance = 0;                         // to be the best of all candidates
  double gain = 0;    // expected decrease of the regret by measuring it after the previous ones
  double cost_s = 0;  // cost of the trial: seconds of its steps times ranks
};

/// The belief on one candidate, from fit and own measurements.
struct Belief {
  double seconds = 0, lower = 0, upper = 0;  // of a step
  double chance = 0;
};

struct Outlook {
  size_t choice = 0;            // the candidate to take now
  double regret = 0;            // expected loss of throughput, as a share of the best's
  std::vector<Belief> beliefs;  // of each candidate
  std::vector<Suggestion> next;
};

/// `machine`: fitted to the candidates' measured runs, or unfitted if there are none. Deterministic for a
/// seed. Throws std::invalid_argument without candidates.
Outlook look_ahead(const std::vector<Candidate>& candidates, const Machine& machine,
                   const SuggestOptions& options);

/// The same by settings alone: `fit` is of the candidates' measured runs.
Outlook look_ahead(const std::vector<Candidate>& candidates, const SettingsFit& fit,
                   const SuggestOptions& options);

/// E[min(mean + slope * Z)] - min(mean) <= 0 for a standard normal Z: the value of learning Z.
double expected_minimum_change(const std::vector<double>& mean, const std::vector<double>& slope);

}  // namespace isobar::perf
