// Repeats contended trials (contention.h). A repeat is an additional trial: same specification and
// repetition, another id, and `repeats` in trial.json names the original. Nothing is overwritten; both are
// results.
//
//   SweepOutcome o = run_with_repeats(whole, part, sweep, [&](const Matrix& m) { return run_sweep(m, ...);
//   });
//
// `repeat_contended: N` in the sweep file: up to N repeats while the latest is contended (default 1); 0 turns
// them off. A sweep that was killed finds the same repeats again.
#pragma once
#include <functional>
#include <vector>

#include "bench/sweep/run/runner.h"

namespace isobar::sweep {

/// Runs `part` and then its repeats, which are appended to `whole` too. `run` receives the trials to run each
/// time; outcomes are combined in order.
SweepOutcome run_with_repeats(Matrix& whole, const Matrix& part, const SweepSpec& sweep,
                              const std::function<SweepOutcome(const Matrix& m)>& run);

}  // namespace isobar::sweep
