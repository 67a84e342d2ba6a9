// Rounds of suggested trials: look ahead, run the suggestions, fit again.
//
//   RoundsOutcome o = suggest_rounds(field, {.bound = regret_bound("regret<2%")}, run, show);
//   o.reached, o.left                     // the bound, confirmed by measurements; the expected regret
#pragma once
#include <csignal>
#include <functional>
#include <string>

#include "bench/suggest/sweep_field.h"
#include "bench/sweep/run/runner.h"

namespace isobar::suggest {

struct RoundOptions {
  int64_t count = 0;       // trials of a round; 0: four
  bool run = false;        // runs one round; without `run` and `bound` nothing runs
  double bound = 0;        // of the expected regret: rounds until it is reached; 0: none
  int64_t max_trials = 0;  // with a bound: stop at this number; 0: none
  const volatile std::sig_atomic_t* stop = nullptr;  // not 0: stop after this round
};

struct RoundsOutcome {
  bool complete =
      true;  // every suggested trial has its verdict, and a bound is reached or all trials were run
  bool reached = false;  // the bound, confirmed by measurements
  double left = 1;       // expected regret
};

/// Runs these trials of the matrix; complete ones are not run again.
using RunPart = std::function<sweep::SweepOutcome(const sweep::Matrix& part)>;

/// `show`: called with each look ahead, before its trials run. `field` is refreshed.
RoundsOutcome suggest_rounds(SweepField& field, const RoundOptions& options, const RunPart& run,
                             const std::function<void(const perf::Outlook&)>& show);

/// "regret<2%" -> 0.02; throws ConfigError for anything else.
double regret_bound(const std::string& until);

}  // namespace isobar::suggest
