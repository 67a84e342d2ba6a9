#include "perfmodel/score/scoreboard/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

/// Geometric means over repetitions of a specification.
std::pair<std::vector<double>, std::vector<double>> choices_of(const std::vector<const ScoredRow*>& rows) {
  struct Choice {
    double measured = 0, predicted = 0, rows = 0;  // sums of logarithms
  };
  std::map<std::string, Choice> choices;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ScoredRow& r = *rows[i];
    Choice& c = choices[r.choice.empty() ? "row " + std::to_string(i) : r.choice];
    c.measured += std::log(r.measured);
    c.predicted += std::log(r.predicted);
    ++c.rows;
  }
  std::vector<double> measured, predicted;
  for (const auto& [name, c] : choices) {
    measured.push_back(std::exp(c.measured / c.rows));
    predicted.push_back(std::exp(c.predicted / c.rows));
  }
  return {measured, predicted};
}

}  // namespace

Scores score_rows(const std::vector<ScoredRow>& rows) {
  Scores s;
  s.rows = rows.size();
  if (rows.empty()) return s;
  const double n = static_cast<double>(rows.size());
  std::vector<double> errors;
  std::map<std::string, std::vector<const ScoredRow*>> groups;
  for (const ScoredRow& r : rows) {
    errors.push_back(std::abs(r.error()));
    s.bias += r.error() / n;
    s.coverage += (r.inside() ? 1 : 0) / n;
    groups[r.group].push_back(&r);
  }
  if (std::all_of(rows.begin(), rows.end(), [](const ScoredRow& r) { return r.constant_mfu > 0; })) {
    s.constant_mfu = 0;
    for (const ScoredRow& r : rows) *s.constant_mfu += std::abs(r.constant_mfu / r.measured - 1) / n;
  }
  s.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  s.median = quantile(errors, 0.5);
  s.p90 = quantile(errors, 0.9);
  double rank = 0, regret = 0;
  for (const auto& [name, members] : groups) {
    const auto [measured, predicted] = choices_of(members);
    if (measured.size() < kGroup) continue;
    const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
    regret += measured[static_cast<size_t>(chosen)] / *std::min_element(measured.begin(), measured.end()) - 1;
    rank += spearman(measured, predicted);
    ++s.groups;
  }
  if (s.groups > 0) {
    s.spearman = rank / static_cast<double>(s.groups);
    s.regret = regret / static_cast<double>(s.groups);
  }
  return s;
}

std::map<std::string, Scores> score_kinds(const std::vector<ScoredRow>& rows) {
  std::map<std::string, std::vector<ScoredRow>> kinds;
  for (const ScoredRow& r : rows)
    if (!r.kind.empty()) kinds[r.kind].push_back(r);
  std::map<std::string, Scores> out;
  for (const auto& [kind, own] : kinds) out[kind] = score_rows(own);
  return out;
}

}  // namespace isobar::perf
