// How well an engine is predicted for a user's own runs, before and after it has learnt from them.
//
//   const OwnFit f = fit_own(own_runs(table, "mine.csv", "nemo", {}, machine), machine);
//   score_rows(f.without).mape, score_rows(f.left_out).mape
#pragma once
#include <vector>

#include "perfmodel/score/own_runs.h"
#include "perfmodel/score/scoreboard/metrics.h"

namespace isobar::perf {

struct OwnFit {
  std::vector<ScoredRow> without;   // predicted with none of them fitted
  std::vector<ScoredRow> left_out;  // each predicted from the others
};
/// Throws ConfigError for an unknown engine, and for a machine without accelerators.
OwnFit fit_own(const OwnRuns& own, const Machine& machine);

}  // namespace isobar::perf
