// Finished runs as the fit wants them.
//
//   std::vector<MeasuredRun> runs = usable_runs("results/demo", "median", /*quiet=*/false);
#pragma once
#include <string>
#include <vector>

#include "bench/sweep/results.h"
#include "perfmodel/fitting/fit.h"

namespace isobar {

/// `statistic` of its steps: median, p10 or min.
MeasuredRun measured(const RunRecord& r, const std::string& statistic);
/// Whether the run has a step time to fit to.
bool is_usable(const RunRecord& r, const std::string& statistic);
/// All of a directory; throws ConfigError when there is none.
std::vector<MeasuredRun> usable_runs(const std::string& dir, const std::string& statistic, bool quiet);

}  // namespace isobar
