// What the performance model says about the trials of a sweep, before they run.
#pragma once
#include "bench/cli/engine_on.h"
#include "bench/sweep/trials.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

/// Gives every trial its forecast. Trials that cannot run there become `skipped`, but for a share
/// `probe_infeasible` of them (chosen by the sweep's seed), which run to test that very prediction.
void forecast(Matrix& matrix, const SweepSpec& sweep, const Machine& machine, int64_t ranks_per_node,
              bool progress = false);
/// As another's engine would run them (`isobar predict --engine`): nothing of it is to run here. A trial that
/// is more likely than not too large becomes `skipped`.
void forecast(Matrix& matrix, const SweepSpec& sweep, const Machine& machine, const EngineQuestion& engine);

}  // namespace isobar
