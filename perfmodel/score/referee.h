// The referee: predictions of measured runs that the fit never saw, and how wrong they were.
//
//   Library shipped = load_library("configs/published");
//   TableScore t = judge(read_published("hidden.csv"), shipped, {.split = Split::folds, .folds = 5});
//   t.time.mape, t.refused
//
// Nothing of the rows scored reaches the fit that predicts them: not as training rows, not through another
// table that repeats a row (same id or same specification), not by way of hyper-parameters.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/score/collective_model.h"
#include "perfmodel/score/metrics.h"
#include "perfmodel/score/published_run.h"

namespace isobar {

struct JudgeOptions {
  enum class Split { folds, layout, gpus, model, points, up_to, none } split = Split::folds;
  int folds = 5;
  int points = 20;
  double nodes = 8;        // up_to: fitted to runs of at most so many nodes, scored on the others
  bool spec_only = false;  // spec-sheet prices and one scale a machine family, from other tables
  unsigned seed = 1;
};

using Library = std::vector<PublishedTable>;
/// Every table of training runs in the folder, by name.
Library load_library(const std::string& folder, bool experts = false);

/// Who ran out of memory, and who was said to.
struct Confusion {
  int failed_called = 0, failed_missed = 0;  // did not fit: called so; said to fit
  int fitted_called = 0, fitted_missed = 0;  // fitted: called so; said not to
  std::vector<std::string> misses;           // row ids
  int rows() const { return failed_called + failed_missed + fitted_called + fitted_missed; }
  double right() const { return rows() == 0 ? 0 : double(failed_called + fitted_called) / rows(); }
};

struct TableScore {
  std::string table;
  std::map<std::string, int> refused;
  std::vector<ScoredRow> rows, memory_rows;  // seconds; bytes
  Scores time;
  std::optional<Scores> fast;         // rows with a published MFU of 15 % or more, beside all
  std::optional<Scores> memory;       // where there are readings
  std::optional<Confusion> outcomes;  // where runs did not fit, or campaigns tell of some
};

struct CollectiveScore {
  std::string table;
  std::map<std::string, int> refused;
  std::vector<ScoredRow> rows;
  Scores time, large;  // all sizes; 64 MiB and more
  std::map<std::string, std::pair<Scores, Scores>> by_tool;
};
CollectiveScore judge(const CollectiveTable& table, const JudgeOptions& options);

/// `others` are what may be fitted to beside the table itself.
TableScore judge(const PublishedTable& table, const Library& others, const JudgeOptions& options);

}  // namespace isobar
