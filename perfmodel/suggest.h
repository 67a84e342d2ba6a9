// Which trials to run next, and how much is still to be lost by stopping now.
//
//   Outlook o = look_ahead(candidates, fitted, {.count = 4});
//   o.choice, o.regret                     // take this one now; expected to fall short of the best by 3 %
//   for (const Suggestion& s : o.next) …   // the trials that would lower that most, best first
//
// What a fit leaves unknown (covariance of coefficients and effects, groups that no run was in, ranges left,
// spread of each specification for itself) makes the candidates' log times one correlated normal
// distribution; measured times are part of it, with the error that their own steps show. A trial is worth
// what it lowers the expected regret of the final choice by: the knowledge gradient with correlated beliefs
// (Frazier, Powell and Dayanik 2009, INFORMS J. Computing 21(4)), exact for one trial. Of a batch, each is
// chosen as if those before it had been measured. Candidates are compared by samples a second.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "model/base/spec.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/terms.h"

namespace isobar {

/// One specification of those to choose from.
struct Candidate {
  RunSpec spec;
  StepTerms terms;  // terms_of(spec, ...) with the machine that the fit started from
  std::vector<MeasuredRun> measured = {};
  int64_t trials_left = 1;            // trials of it that can still be run; 0: it is not suggested
  std::optional<StepView> view = {};  // of layouts (layout_fit.h); else that of `terms`
};

struct SuggestOptions {
  size_t count = 4;      // trials to suggest
  uint64_t seed = 0;     // of the draws behind chances and regret
  int64_t draws = 4096;  // from the distribution
};

struct Suggestion {
  size_t candidate = 0;
  double seconds = 0, lower = 0, upper = 0;  // of a step, 80 % interval
  double chance = 0;                         // to be the best of all candidates
  double gain = 0;    // by which measuring it (after those before it) is expected to lower the regret
  double cost_s = 0;  // what the trial takes: seconds of its steps times ranks
};

/// What is thought of one candidate, from fit and own measurements.
struct Belief {
  double seconds = 0, lower = 0, upper = 0;  // of a step
  double chance = 0;
};

struct Outlook {
  size_t choice = 0;            // index of the candidate to take now
  double regret = 0;            // expected; of its throughput, as a share of the best's
  std::vector<Belief> beliefs;  // of each candidate
  std::vector<Suggestion> next;
};

/// `machine`: fitted to the measured runs of the candidates (or not fitted at all, where there are none).
/// Deterministic for a seed. Throws std::invalid_argument without candidates.
Outlook look_ahead(const std::vector<Candidate>& candidates, const Machine& machine,
                   const SuggestOptions& options);

/// E[min(mean + slope * Z)] - min(mean) <= 0 for a standard normal Z: what is to be gained from learning Z.
double expected_minimum_change(const std::vector<double>& mean, const std::vector<double>& slope);

}  // namespace isobar
