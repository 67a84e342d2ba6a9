// Contended trials (contention.h) are run once more. A repeat is a trial of its own beside the disturbed one:
// same specification and repetition, another id, and trial.json's `repeats` names what it repeats. Nothing is
// overwritten; both are results.
//
//   SweepOutcome o = run_with_repeats(whole, part, sweep, [&](const Matrix& m) { return run_sweep(m, ...);
//   });
//
// `repeat_contended: N` in the sweep file: as long as the last one is contended too, up to N repeats (1); 0
// turns them off. A sweep that is killed in between finds the same repeats again.
#pragma once
#include <functional>
#include <vector>

#include "bench/sweep/runner.h"

namespace isobar {

/// The repeats that these runs want and `m` does not hold.
std::vector<Trial> wanted_repeats(const Matrix& m, const std::vector<RunRecord>& runs, int64_t most);

/// Runs `part`, then what it wants repeated; repeats are appended to `whole` too. `run` is given each time
/// what is to run; the outcomes are put together in order.
SweepOutcome run_with_repeats(Matrix& whole, const Matrix& part, const SweepSpec& sweep,
                              const std::function<SweepOutcome(const Matrix& m)>& run);

}  // namespace isobar
