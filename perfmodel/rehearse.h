// What suggestions are worth: a finished sweep played again as if nothing of it were known, once with
// suggested trials and once with trials in random order, from the same few random ones.
//
//   Rehearsal r = rehearse(candidates, calibrated, {.seeds = 20});
//   r.suggested[s], r.random[s]      // regret of the choice after each round, by seed
//   r.suggested[s].kept(0.02)        // trials that it needed
//
// Both use the same fit and the same rule for the choice, so they differ in the order of trials only. A
// candidate's true time is the median of its repetitions; a trial shows one of them.
#pragma once
#include <functional>
#include <vector>

#include "perfmodel/suggest.h"

namespace isobar {

struct RehearsalOptions {
  int64_t seeds = 20;
  uint64_t seed = 0;                 // the first
  size_t first = 4;                  // random trials that both begin with
  size_t round = 4;                  // trials between two fits
  size_t max_trials = 0;             // 0: all
  Statistic statistic = kStatistic;  // what step_s of the runs is
  double enough = 0;                 // a play ends when its choice has stayed within this regret ...
  size_t hold = 8;                   // ... for so many more trials; enough 0: plays go on to the last trial
  std::function<void(int64_t done, int64_t of)> progress = {};
};

struct Play {
  std::vector<size_t> trials;    // run before each choice
  std::vector<double> regret;    // true, of the choice
  std::vector<double> expected;  // what look_ahead thought it was
  /// Trials after which the choice was within `regret` for the first time, perhaps by luck, ...
  size_t reached(double regret) const;
  /// ... and from which on it stayed there as long as the play went on. One more than all if never.
  size_t kept(double regret) const;
  /// Index of the round at which `--until` would have stopped: expected regret below the bound, else the
  /// last.
  size_t stop(double bound) const;
};

struct Rehearsal {
  std::vector<Play> suggested, random;
  /// Best of the measured trials of the random order, without any model.
  std::vector<Play> blind;
};

/// Of candidates with all their measured runs; those without any are left out.
Rehearsal rehearse(const std::vector<Candidate>& finished, const Machine& machine,
                   const RehearsalOptions& options);

/// What the candidate takes, samples a second compared, next to the best of all: 1 - best / own time.
std::vector<double> true_regrets(const std::vector<Candidate>& finished);

}  // namespace isobar
