// Scores of predictions, as `isobar score` prints them.
//
//   Scores s = score_rows(rows);   // shares of 1; s.spearman
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isobar::perf {

struct ScoredRow {
  std::string id, group;  // group: rows among which a planner would choose
  double measured = 0, predicted = 0, lower = 0, upper = 0;
  /// The specification: rows that repeat it are one choice, with their geometric mean. Empty: the row's own.
  std::string choice{};
  /// The value that is new to the fit (campaign_fit.h), and its share of the interval's variance.
  std::string news{};
  double news_share = 0;
  /// Chances of the values that were assumed, by unsaid column, and the one that would narrow it most.
  std::map<std::string, std::map<std::string, double>> assumed{};
  std::string narrows{};
  std::string kind{};       // net and chip: "llama on h100"
  double constant_mfu = 0;  // prediction of a constant MFU (predictor.h); 0: none
  double error() const { return predicted / measured - 1; }
  bool inside() const { return lower <= measured && measured <= upper; }
};

struct Scores {
  size_t rows = 0;
  double mape = 0, median = 0, p90 = 0, bias = 0, coverage = 0;
  size_t groups = 0;                       // with at least kGroup choices
  std::optional<double> spearman, regret;  // mean over groups; none: no group is large enough
  std::optional<double> constant_mfu;      // mean error of a constant MFU; none: not predicted
};
constexpr size_t kGroup = 5;

Scores score_rows(const std::vector<ScoredRow>& rows);
/// By kind of net and chip.
std::map<std::string, Scores> score_kinds(const std::vector<ScoredRow>& rows);

}  // namespace isobar::perf
