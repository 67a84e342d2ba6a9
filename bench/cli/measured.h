// Finished runs, prepared for the fit.
//
//   std::vector<MeasuredRun> runs = usable_runs("results/demo", Statistic::median, /*quiet=*/false);
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/sweep/results.h"
#include "perfmodel/fitting/fit.h"

namespace isobar {

/// `between`: the scatter between all runs that this one is fitted with.
MeasuredRun measured(const RunRecord& r, Statistic statistic, const RunToRun& between);
/// True if the run has a step time to fit to.
bool is_usable(const RunRecord& r, Statistic statistic);
/// All usable runs of a directory; throws ConfigError when there is none. `between` gets the scatter that
/// they were given.
std::vector<MeasuredRun> usable_runs(const std::string& dir, Statistic statistic, bool quiet,
                                     RunToRun* between = nullptr);
/// "repetitions of a run differ by 2.0 % (assumed: there are none)"
std::string words_of(const RunToRun& between);

/// --statistic, shared by all commands that take it.
CLI::Option* add_statistic_option(CLI::App& command, Statistic& s, const std::string& more = "");

}  // namespace isobar
