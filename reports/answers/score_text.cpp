#include "reports/answers/score_text.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::report {
namespace {

nlohmann::json json_of(const perf::Scores& s) {
  nlohmann::json j = {{"rows", s.rows}, {"groups", s.groups}};
  for (const char* key :
       {"mape", "median", "p90", "bias", "spearman", "regret", "coverage", "constant_mfu_mape"})
    j[key] = nullptr;
  if (s.rows == 0) return j;
  j["mape"] = 100 * s.mape;
  j["median"] = 100 * s.median;
  j["p90"] = 100 * s.p90;
  j["bias"] = 100 * s.bias;
  j["coverage"] = 100 * s.coverage;
  if (s.spearman) j["spearman"] = *s.spearman;
  if (s.regret) j["regret"] = 100 * *s.regret;
  if (s.constant_mfu) j["constant_mfu_mape"] = 100 * *s.constant_mfu;
  return j;
}

nlohmann::json json_of(const perf::Confusion& c) {
  return {{"rows", c.rows()},
          {"right", 100 * c.right()},
          {"out_of_memory", {{"called", c.failed_called}, {"missed", c.failed_missed}}},
          {"fitted", {{"called", c.fitted_called}, {"missed", c.fitted_missed}}},
          {"misses", c.misses}};
}

nlohmann::json json_of(const std::vector<perf::ScoredRow>& rows) {
  nlohmann::json j = nlohmann::json::array();
  for (const perf::ScoredRow& r : rows)
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

/// Chances of what the rows leave unsaid, over all rows, and how many of them each would narrow most.
struct Unsaid {
  std::map<std::string, std::map<std::string, double>> assumed;
  std::map<std::string, size_t> narrows;
};

Unsaid unsaid_of(const std::vector<perf::ScoredRow>& rows) {
  Unsaid u;
  std::map<std::string, double> count;
  for (const perf::ScoredRow& r : rows) {
    for (const auto& [column, values] : r.assumed) {
      ++count[column];
      for (const auto& [value, chance] : values) u.assumed[column][value] += chance;
    }
    if (!r.narrows.empty()) ++u.narrows[r.narrows];
  }
  for (auto& [column, values] : u.assumed)
    for (auto& [value, chance] : values) chance /= count.at(column);
  return u;
}

/// The same keys whatever was predicted, and from what.
nlohmann::json json_of(const char* of, const std::string& name, const char* quantity,
                       const perf::Scores& scores, const std::vector<perf::ScoredRow>& rows,
                       const std::map<std::string, int>& refused, const ScoreView& view) {
  nlohmann::json j = json_of(scores);
  const Unsaid unsaid = unsaid_of(rows);
  int rows_refused = 0;
  for (const auto& [why, n] : refused) rows_refused += n;
  j["of"] = of;
  j["name"] = name;
  j["quantity"] = quantity;
  j["refused"] = rows_refused;
  j["reasons"] = refused;
  j["assumed"] = unsaid.assumed;
  j["narrows_most"] = unsaid.narrows;
  j["kinds"] = nlohmann::json::object();
  for (const auto& [kind, s] : perf::score_kinds(rows)) j["kinds"][kind] = json_of(s);
  if (view.rows) j["predictions"] = json_of(rows);
  return j;
}

std::string line_of(const std::string& name, int refused, const perf::Scores& s) {
  const auto or_dash = [](const std::optional<double>& v, const char* format) {
    return v ? printed(format, *v) : std::string("-");
  };
  std::string text = printed("%-36s %5zu %7d", name.c_str(), s.rows, refused);
  if (s.rows > 0) {
    text += printed(" %7.1f", 100 * s.mape);
    text += printed(" %8s", s.constant_mfu ? printed("%.1f", 100 * *s.constant_mfu).c_str() : "-");
    text += printed(" %7.1f %7.1f %+7.1f %6zu", 100 * s.median, 100 * s.p90, 100 * s.bias, s.groups);
    text += printed(" %8s", or_dash(s.spearman, "%.2f").c_str());
    text += printed(" %7s", s.regret ? printed("%.1f", 100 * *s.regret).c_str() : "-");
    text += printed(" %8.0f", 100 * s.coverage);
  }
  return text + "\n";
}

/// A line for each kind of net and chip, where there are several.
std::string kinds_of(const std::vector<perf::ScoredRow>& rows) {
  const std::map<std::string, perf::Scores> kinds = perf::score_kinds(rows);
  std::string text;
  if (kinds.size() < 2) return text;
  for (const auto& [kind, s] : kinds) text += line_of("    " + kind, 0, s);
  return text;
}

std::string unsaid_text(const std::vector<perf::ScoredRow>& rows) {
  constexpr double kShown = 0.05;
  const Unsaid u = unsaid_of(rows);
  std::string text;
  for (const auto& [column, values] : u.assumed) {
    std::vector<std::pair<double, std::string>> likeliest;
    for (const auto& [value, chance] : values)
      if (chance >= kShown) likeliest.emplace_back(-chance, value);
    std::sort(likeliest.begin(), likeliest.end());
    text += printed("    not said: %s, assumed", column.c_str());
    for (const auto& [less, value] : likeliest) text += printed(" %s %.0f %%", value.c_str(), -100 * less);
    const auto narrows = u.narrows.find(column);
    if (narrows != u.narrows.end())
      text += printed("; saying it would narrow %zu rows most", narrows->second);
    text += "\n";
  }
  return text;
}

/// Rows whose interval is wide mostly because the fit has no run with one of their properties.
std::string news_of(const std::vector<perf::ScoredRow>& rows) {
  std::string text;
  std::map<std::string, std::vector<double>> widths;
  for (const perf::ScoredRow& r : rows)
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

std::string score_header(const char* of) {
  return printed("%-36s %5s %7s %7s %8s %7s %7s %7s %6s %8s %7s %8s\n", of, "rows", "refused", "MAPE",
                 "constant", "median", "p90", "bias", "groups", "Spearman", "regret", "coverage");
}

std::string shown(const perf::TableScore& s, const ScoreView& a) {
  std::string text;
  if (a.json) {
    nlohmann::json j = json_of("table", s.table, "step time", s.time, s.rows, s.refused, a);
    if (s.fast) j["mfu_15"] = json_of(*s.fast);
    text += json_text(j) + "\n";
    if (!s.open.empty())
      text += json_text(json_of("open rows", s.table, "step time", perf::score_rows(s.open), s.open, {}, a)) +
              "\n";
    if (s.memory || s.outcomes) {
      j = json_of("table", s.table, "peak memory", s.memory ? *s.memory : perf::Scores{}, s.memory_rows,
                  s.refused, a);
      if (s.outcomes) j["outcomes"] = json_of(*s.outcomes);
      text += json_text(j) + "\n";
    }
    return text;
  }
  text += line_of(s.table, sum(s.refused), s.time);
  text += kinds_of(s.rows);
  text += news_of(s.rows);
  text += unsaid_text(s.rows);
  if (!s.open.empty()) {
    text += line_of("  rows with open inputs", 0, perf::score_rows(s.open));
    text += unsaid_text(s.open);
  }
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

std::string shown(const perf::CollectiveScore& s, const ScoreView& a) {
  std::string text;
  if (a.json) {
    nlohmann::json j = json_of("table", s.table, "collective", s.time, s.rows, s.refused, a);
    j["over_64_mib"] = json_of(s.large);
    for (const auto& [tool, scores] : s.by_tool) {
      j["tools"][tool] = json_of(scores.first);
      j["tools"][tool]["over_64_mib"] = json_of(scores.second);
    }
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

std::string refusals(const perf::PublishedTable& t) {
  return t.name + "\n" + reasons_of(t.refused);
}

std::string shown(const perf::CampaignsOut& out, const char* what, const ScoreView& a) {
  std::string text;
  if (a.json) {
    for (const perf::CampaignScore& c : out.campaigns) {
      nlohmann::json j = json_of("campaign", c.campaign, what, c.scores, c.rows, {}, a);
      j["campaign"] = c.campaign;
      text += json_text(j) + "\n";
    }
    if (!out.open.empty())
      text += json_text(
                  json_of("open rows", "all campaigns", what, perf::score_rows(out.open), out.open, {}, a)) +
              "\n";
    const nlohmann::json all = {{"of", "all campaigns"},
                                {"quantity", what},
                                {"campaigns", out.campaigns.size()},
                                {"median_mape", 100 * out.median_mape},
                                {"coverage", 100 * out.coverage},
                                {"least_coverage", 100 * out.least},
                                {"upper_over_lower", out.width}};
    return text + json_text(all) + "\n";
  }
  text += printed("%s\n", what);
  std::vector<perf::ScoredRow> rows;
  for (const perf::CampaignScore& c : out.campaigns) {
    text += line_of("  " + c.campaign, 0, c.scores);
    text += unsaid_text(c.rows);
    rows.insert(rows.end(), c.rows.begin(), c.rows.end());
  }
  if (const std::string kinds = kinds_of(rows); !kinds.empty()) text += "  by net and chip\n" + kinds;
  if (!out.open.empty()) {
    text += printed("rows that leave inputs open, over all that they may be of (measured: 1)\n");
    text += line_of("  all campaigns", 0, perf::score_rows(out.open));
    text += unsaid_text(out.open);
  }
  if (out.campaigns.empty()) return text;
  text += printed(
      "  median over %zu campaigns of the mean error %.1f %%; the 80 %% interval covers %.0f %% of all "
      "rows, %.0f %% of the campaign that has the least; upper over lower %.2f (median)\n",
      out.campaigns.size(), 100 * out.median_mape, 100 * out.coverage, 100 * out.least, out.width);
  return text;
}

// Accuracy by the number of a campaign's rows that are given to the fit.
std::string shown(const std::vector<std::pair<int, perf::CampaignsOut>>& few, const char* what,
                  const ScoreView& a) {
  std::string text;
  if (few.empty()) return text;
  if (!a.json)
    text += printed("%s by rows given of the campaign, median over campaigns\n  %5s %9s %7s %8s %5s %12s\n",
                    what, "given", "campaigns", "MAPE", "coverage", "least", "upper/lower");
  for (const auto& [given, out] : few) {
    if (a.json) {
      nlohmann::json by = nlohmann::json::object();
      for (const perf::CampaignScore& c : out.campaigns) by[c.campaign] = json_of(c.scores);
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

}  // namespace isobar::report
