// Evaluates suggestions: replays a finished sweep as if unknown, with suggested trials and with random ones,
// from the same few random first trials.
//
//   Rehearsal r = rehearse(candidates, calibrated, {.seeds = 20});
//   r.suggested[s], r.random[s]      // regret of the choice after each round, by seed
//   r.suggested[s].kept(0.02)        // trials that it needed
//
// Both use the same fit and choice rule, so only the order of trials differs. A candidate's true time is the
// median of its repetitions; a trial reveals one of them.
#pragma once
#include <functional>
#include <vector>

#include "perfmodel/ask/suggest.h"

namespace isobar::perf {

struct RehearsalOptions {
  int64_t seeds = 20;
  uint64_t seed = 0;                 // the first
  size_t first = 4;                  // random trials at the start of both
  size_t round = 4;                  // trials between two fits
  size_t max_trials = 0;             // 0: all
  Statistic statistic = kStatistic;  // statistic of the runs' step_s
  double enough = 0;                 // a play ends when its choice has stayed within this regret …
  size_t hold = 8;                   // … for this number of further trials; enough 0: at the last trial
  std::function<void(int64_t done, int64_t of)> progress = {};
};

struct Play {
  std::vector<size_t> trials;    // run before each choice
  std::vector<double> regret;    // true, of the choice
  std::vector<double> expected;  // as look_ahead expected
  /// Trials until the choice was first within `regret`, perhaps by luck; one more than all if never.
  size_t reached(double regret) const;
  /// Trials from which on it stayed within `regret`; one more than all if never.
  size_t kept(double regret) const;
  /// Round at which `--until` stops: the first with expected regret below the bound, else the last.
  size_t stop(double bound) const;
};

struct Rehearsal {
  std::vector<Play> suggested, random;
  /// Best measured trial of the random order, without a model.
  std::vector<Play> blind;
};

/// Candidates need all their measured runs; those without any are left out.
Rehearsal rehearse(const std::vector<Candidate>& finished, const Machine& machine,
                   const RehearsalOptions& options);

}  // namespace isobar::perf
