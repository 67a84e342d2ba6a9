// The referee: predicts measured runs that the fit never saw, and scores the errors.
//
//   Library shipped = load_library("configs/published");
//   TableScore t = judge(read_published("hidden.csv"), shipped, {.split = Split::folds, .folds = 5});
//   t.time.mape, t.refused
//
// Scored rows never reach the fit that predicts them: not as training rows, not through another table that
// repeats them (same id or specification), not through hyper-parameters.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/score/counts/collective_model.h"
#include "perfmodel/score/prices/prices.h"
#include "perfmodel/score/published/published_run.h"
#include "perfmodel/score/scoreboard/metrics.h"

namespace isobar::perf {

struct JudgeOptions {
  enum class Split { folds, layout, gpus, model, points, up_to, none } split = Split::folds;
  int folds = 5;
  int points = 20;
  double nodes = 8;        // up_to: fits runs on at most this number of nodes, scores the others
  bool spec_only = false;  // spec-sheet prices and one scale a machine family, from other tables
  unsigned seed = 1;
};

using Library = std::vector<PublishedTable>;
/// Every table of training runs in the folder, by name.
Library load_library(const std::string& folder);

/// Out of memory, measured against predicted.
struct Confusion {
  int failed_called = 0, failed_missed = 0;  // did not fit: predicted so; predicted to fit
  int fitted_called = 0, fitted_missed = 0;  // fitted: predicted so; predicted not to
  std::vector<std::string> misses;           // row ids
  int rows() const { return failed_called + failed_missed + fitted_called + fitted_missed; }
  double right() const { return rows() == 0 ? 0 : double(failed_called + fitted_called) / rows(); }
};

struct TableScore {
  std::string table;
  std::map<std::string, int> refused;
  std::vector<ScoredRow> rows, memory_rows;  // seconds; bytes
  std::vector<ScoredRow> open;               // rows with open inputs, over all that they may be; measured: 1
  Scores time;
  std::optional<Scores> fast;         // rows with a published MFU of 15 % or more
  std::optional<Scores> memory;       // if there are readings
  std::optional<Confusion> outcomes;  // if runs did not fit, or campaigns have failures
};

struct CollectiveScore {
  std::string table;
  std::map<std::string, int> refused;
  std::vector<ScoredRow> rows;
  Scores time, large;  // all sizes; 64 MiB and more
  std::map<std::string, std::pair<Scores, Scores>> by_tool;
};
CollectiveScore judge(const CollectiveTable& table, const JudgeOptions& options);

/// `others` may be fitted to besides the table itself.
TableScore judge(const PublishedTable& table, const Library& others, const JudgeOptions& options);

// Leave-one-campaign-out: each is predicted from all others, like a stranger's runs.
//
// A campaign is an engine and its tuning (PublishedRun::campaign), across tables. Nothing of it reaches the
// fit, nor does a row of another campaign that repeats one of its specifications.

struct CampaignScore {
  std::string campaign;
  Scores scores;
  std::vector<ScoredRow> rows;
};

struct CampaignsOut {
  std::vector<CampaignScore> campaigns;  // by name
  double median_mape = 0;                // over campaigns, of their mean errors
  double coverage = 0, least = 0;        // of all rows; of the worst campaign
  double width = 0;                      // median over campaigns: upper over lower of their median row
  std::vector<ScoredRow> open;           // rows with open inputs, over all their candidates
};

/// kStepSeconds, or kPeakBytes of runs with memory readings. `others` are also fitted to. `given`: number of
/// the campaign's random rows to fit to, in ten draws; repetitions of those are not scored, and campaigns
/// with too few rows are skipped.
CampaignsOut leave_campaigns_out(const Quantity& quantity, const Library& scored, const Library& others,
                                 size_t given = 0);

}  // namespace isobar::perf
