// Finished runs as the fit wants them.
//
//   std::vector<MeasuredRun> runs = usable_runs("results/demo", Statistic::median, /*quiet=*/false);
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/sweep/results.h"
#include "perfmodel/fitting/fit.h"

namespace isobar {

/// `between`: of all runs that it is measured beside.
MeasuredRun measured(const RunRecord& r, Statistic statistic, const RunToRun& between);
/// Whether the run has a step time to fit to.
bool is_usable(const RunRecord& r, Statistic statistic);
/// All of a directory; throws ConfigError when there is none. `between`, if asked for: what they were given.
std::vector<MeasuredRun> usable_runs(const std::string& dir, Statistic statistic, bool quiet,
                                     RunToRun* between = nullptr);
/// "repetitions of a run differ by 2.0 % (assumed: there are none)"
std::string words_of(const RunToRun& between);

/// --statistic, the same for all commands that know one.
CLI::Option* add_statistic_option(CLI::App& command, Statistic& s, const std::string& more = "");

}  // namespace isobar
