// Predictions for the trials of a sweep, before they run.
#pragma once
#include "bench/sweep/results/trials.h"
#include "perfmodel/ask/choose/question.h"
#include "perfmodel/machine/machine.h"

namespace isobar::suggest {

/// Gives every trial its forecast. Trials that cannot run become `skipped`, except a share `probe_infeasible`
/// of them (chosen by the sweep's seed), which run to test that prediction.
void forecast(sweep::Matrix& matrix, const sweep::SweepSpec& sweep, const perf::Machine& machine,
              int64_t ranks_per_node, bool progress = false);
/// Forecasts for another engine (`isobar predict --engine`), without running anything. A trial that is more
/// likely than not too large becomes `skipped`.
void forecast(sweep::Matrix& matrix, const sweep::SweepSpec& sweep, const perf::Machine& machine,
              const perf::EngineQuestion& engine);

}  // namespace isobar::suggest
