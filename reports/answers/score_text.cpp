#include "reports/answers/score_text.h"

#include <map>
#include <nlohmann/json.hpp>

#include "model/base/json.h"
#include "model/base/printed.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar {
namespace {

nlohmann::json json_of(const Scores& s) {
  nlohmann::json j = {{"rows", s.rows}, {"groups", s.groups}};
  for (const char* key : {"mape", "median", "p90", "bias", "spearman", "regret", "coverage"})
    j[key] = nullptr;
  if (s.rows == 0) return j;
  j["mape"] = 100 * s.mape;
  j["median"] = 100 * s.median;
  j["p90"] = 100 * s.p90;
  j["bias"] = 100 * s.bias;
  j["coverage"] = 100 * s.coverage;
  if (s.spearman) j["spearman"] = *s.spearman;
  if (s.regret) j["regret"] = 100 * *s.regret;
  return j;
}

nlohmann::json json_of(const Confusion& c) {
  return {{"rows", c.rows()},
          {"right", 100 * c.right()},
          {"out_of_memory", {{"called", c.failed_called}, {"missed", c.failed_missed}}},
          {"fitted", {{"called", c.fitted_called}, {"missed", c.fitted_missed}}},
          {"misses", c.misses}};
}

nlohmann::json json_of(const std::vector<ScoredRow>& rows) {
  nlohmann::json j = nlohmann::json::array();
  for (const ScoredRow& r : rows)
    j.push_back({{"id", r.id},
                 {"measured", r.measured},
                 {"predicted", r.predicted},
                 {"lower", r.lower},
                 {"upper", r.upper},
                 {"new", r.news},
                 {"new_share", r.news_share},
                 {"assumed", r.assumed},
                 {"narrows_most", r.narrows}});
  return j;
}

std::string line_of(const std::string& name, int refused, const Scores& s) {
  std::string text;
  text += printed("%-36s %5zu %7d", name.c_str(), s.rows, refused);
  if (s.rows > 0)
    text += printed(" %7.1f %7.1f %7.1f %+7.1f", 100 * s.mape, 100 * s.median, 100 * s.p90, 100 * s.bias);
  if (s.rows > 0 && s.spearman)
    text += printed(" %6zu %8.2f", s.groups, *s.spearman);
  else if (s.rows > 0)
    text += printed(" %6zu %8s", s.groups, "-");
  if (s.rows > 0 && s.regret)
    text += printed(" %7.1f", 100 * *s.regret);
  else if (s.rows > 0)
    text += printed(" %7s", "-");
  if (s.rows > 0) text += printed(" %8.0f", 100 * s.coverage);
  text += printed("\n");
  return text;
}

/// Rows whose interval is wide mostly because the fit has no run with one of their properties.
std::string news_of(const std::vector<ScoredRow>& rows) {
  std::string text;
  std::map<std::string, std::vector<double>> widths;
  for (const ScoredRow& r : rows)
    if (r.news_share > 0.5) widths[r.news].push_back(r.upper / r.lower);
  for (const auto& [what, w] : widths)
    text += printed(
        "    not in the fit, and the largest share of the uncertainty: %s of %zu rows, upper over lower %.2f "
        "(median)\n",
        what.c_str(), w.size(), quantile(w, 0.5));
  return text;
}

std::string reasons_of(const std::map<std::string, int>& refused) {
  std::string text;
  for (const auto& [why, rows] : refused) text += printed("    refused %d: %s\n", rows, why.c_str());
  return text;
}

int sum(const std::map<std::string, int>& refused) {
  int n = 0;
  for (const auto& [why, rows] : refused) n += rows;
  return n;
}

}  // namespace

std::string shown(const TableScore& s, const ScoreView& a) {
  std::string text;
  if (a.json) {
    nlohmann::json j = json_of(s.time);
    j["table"] = s.table;
    j["refused"] = sum(s.refused);
    j["reasons"] = s.refused;
    if (s.fast) j["mfu_15"] = json_of(*s.fast);
    if (s.memory) j["memory"] = json_of(*s.memory);
    if (s.outcomes) j["outcomes"] = json_of(*s.outcomes);
    if (a.rows) j["step_s"] = json_of(s.rows);
    if (a.rows && s.memory) j["memory_bytes"] = json_of(s.memory_rows);
    return json_text(j) + "\n";
  }
  text += line_of(s.table, sum(s.refused), s.time);
  text += news_of(s.rows);
  if (s.fast) text += line_of("  rows with MFU 15 % or more", 0, *s.fast);
  if (s.memory) text += line_of("  memory", 0, *s.memory);
  if (const auto& c = s.outcomes) {
    text += printed(
        "    fits in memory: %.1f %% of %d predicted right; ran out: %d found, %d missed; fitted: %d found, "
        "%d missed\n",
        100 * c->right(), c->rows(), c->failed_called, c->failed_missed, c->fitted_called, c->fitted_missed);
    for (size_t i = 0; i < c->misses.size(); ++i)
      text += printed("%s%s%s", i % 6 == 0 ? "      misses: " : " ", c->misses[i].c_str(),
                      i % 6 == 5 || i + 1 == c->misses.size() ? "\n" : "");
  }
  text += reasons_of(s.refused);
  return text;
}

std::string shown(const CollectiveScore& s, const ScoreView& a) {
  std::string text;
  if (a.json) {
    nlohmann::json j = json_of(s.time);
    j["table"] = s.table;
    j["refused"] = sum(s.refused);
    j["reasons"] = s.refused;
    j["over_64_mib"] = json_of(s.large);
    for (const auto& [tool, scores] : s.by_tool) {
      j["tools"][tool] = json_of(scores.first);
      j["tools"][tool]["over_64_mib"] = json_of(scores.second);
    }
    if (a.rows) j["seconds"] = json_of(s.rows);
    return json_text(j) + "\n";
  }
  text += line_of(s.table, sum(s.refused), s.time);
  text += line_of("  64 MiB and more", 0, s.large);
  for (const auto& [tool, scores] : s.by_tool) {
    if (s.by_tool.size() < 2) break;
    text += line_of("  " + tool.substr(0, 34), 0, scores.first);
    text += line_of("    64 MiB and more", 0, scores.second);
  }
  text += reasons_of(s.refused);
  return text;
}

std::string shown(const CampaignsOut& out, const char* what, const ScoreView& a) {
  std::string text;
  if (a.json) {
    for (const CampaignScore& c : out.campaigns) {
      nlohmann::json j = json_of(c.scores);
      j["campaign"] = c.campaign;
      j["quantity"] = what;
      if (a.rows) j["predictions"] = json_of(c.rows);
      text += json_text(j) + "\n";
    }
    if (!out.open.empty()) {
      nlohmann::json j = json_of(score_rows(out.open));
      j["quantity"] = what;
      j["campaign"] = "rows that leave inputs open";
      if (a.rows) j["predictions"] = json_of(out.open);
      text += json_text(j) + "\n";
    }
    const nlohmann::json all = {{"quantity", what},
                                {"campaigns", out.campaigns.size()},
                                {"median_mape", 100 * out.median_mape},
                                {"coverage", 100 * out.coverage},
                                {"least_coverage", 100 * out.least},
                                {"upper_over_lower", out.width}};
    return text + json_text(all) + "\n";
  }
  text += printed("%s\n", what);
  for (const CampaignScore& c : out.campaigns) text += line_of("  " + c.campaign, 0, c.scores);
  if (!out.open.empty()) {
    text += printed("rows that leave inputs open, over all that they may be of (measured: 1)\n");
    text += line_of("  all campaigns", 0, score_rows(out.open));
    text += news_of(out.open);
  }
  text += printed(
      "  median over %zu campaigns of the mean error %.1f %%; the 80 %% interval covers %.0f %% of all "
      "rows, %.0f %% of the campaign that has the least; upper over lower %.2f (median)\n",
      out.campaigns.size(), 100 * out.median_mape, 100 * out.coverage, 100 * out.least, out.width);
  return text;
}

// Accuracy by the number of a campaign's rows that are given to the fit.
std::string shown(const std::vector<std::pair<int, CampaignsOut>>& few, const char* what,
                  const ScoreView& a) {
  std::string text;
  if (few.empty()) return text;
  if (!a.json)
    text += printed("%s by rows given of the campaign, median over campaigns\n  %5s %9s %7s %8s %5s %12s\n",
                    what, "given", "campaigns", "MAPE", "coverage", "least", "upper/lower");
  for (const auto& [given, out] : few) {
    if (a.json) {
      nlohmann::json by = nlohmann::json::object();
      for (const CampaignScore& c : out.campaigns) by[c.campaign] = json_of(c.scores);
      const nlohmann::json j = {{"quantity", what},
                                {"given", given},
                                {"campaigns", by},
                                {"median_mape", 100 * out.median_mape},
                                {"coverage", 100 * out.coverage},
                                {"least_coverage", 100 * out.least},
                                {"upper_over_lower", out.width}};
      text += json_text(j) + "\n";
    } else if (out.campaigns.empty()) {
      text += printed("  %5d %9d\n", given, 0);
    } else {
      text += printed("  %5d %9zu %7.1f %8.0f %5.0f %12.2f\n", given, out.campaigns.size(),
                      100 * out.median_mape, 100 * out.coverage, 100 * out.least, out.width);
    }
  }
  return text;
}

}  // namespace isobar
