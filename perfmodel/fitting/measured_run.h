// Finished runs, prepared for the fit.
//
//   const UsableRuns u = usable_runs("results/demo", Statistic::median);
//   fit(u.runs, machine, Statistic::median);
#pragma once
#include <string>
#include <vector>

#include "model/records/results.h"
#include "perfmodel/fitting/fit.h"

namespace isobar::perf {

/// `between`: the scatter between all runs that this one is fitted with.
MeasuredRun measured_run(const records::RunRecord& r, Statistic statistic, const RunToRun& between);
/// True if the run has a step time to fit to.
bool is_usable(const records::RunRecord& r, Statistic statistic);

struct UsableRuns {
  std::vector<MeasuredRun> runs;
  RunToRun between;                   // their scatter
  size_t ignored = 0;                 // runs without a step time, or with settings of other engines alone
  std::vector<std::string> problems;  // files that could not be read
};
/// All usable runs of a directory. Throws ConfigError where it is none.
UsableRuns usable_runs(const std::string& dir, Statistic statistic);
/// "repetitions of a run differ by 2.0 % (assumed: there are none)"
std::string words_of(const RunToRun& between);

}  // namespace isobar::perf
