// isobar score: the command line of perfmodel/score's referee.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cli/machine_option.h"
#include "bench/cli/options.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/campaigns_out.h"
#include "perfmodel/score/referee.h"

namespace isobar {
namespace {

constexpr const char* kScoreHelp =
    R"(Without TABLES it runs every table that ships with Isobar (configs/published; its README.md has sources and columns).

FLOPs, bytes, messages and pipeline slots of a step are counted from its row and multiplied by coefficients: how much
slower an engine is than the spec sheet allows. Coefficients start at the spec sheet and are fitted to other campaigns,
then to the training rows of the table itself; a Gaussian process over the layout models the residuals. The rows that
are scored never enter the fit, nor do rows of other tables that repeat them.

What is fitted to:
  (default)          --folds 5, and the shipped runs of other tables. Rows that repeat a specification stay together
  --folds K          K parts: each is predicted from the other K - 1
  --leave-out WHAT   whole layouts (dp tp cp pp v), GPU counts or models (dealt to at most 12 parts); shipped runs of the
                     campaign that have what is left out are left out too
  --leave-out campaign   each engine and its tuning from all the others; a line a campaign, whatever tables it is in
  --points N         N random rows of the table, five draws; of other campaigns only the coefficients are used
  --leave-out campaign --points 1,3,10   also N random rows of the campaign that is left out, in ten draws; its other rows
                     are scored: the error after a user's first runs
  --up-to N          runs on at most N nodes, scored on those of more
  --fit-on OTHER     these tables instead of the shipped ones, and nothing of TABLES; with --folds or --leave-out both
  --spec             spec sheet only; one scale a machine family, from other campaigns

What is printed, in percent: mean, median, 90th percentile and bias of predicted over measured step time; over groups
of at least five choices with the same model, machine, GPUs and batch (rows that repeat a specification are one), rank
correlation (Spearman, at most 1) and regret (extra time of the choice with the shortest prediction); coverage, the
share of rows inside the 80 % interval. The same for peak memory, where rows have it, and whether runs out of memory
were predicted, where tables have them. Rows that cannot be specified are refused with the reason. Intervals are wider
where layout, model, GPU count, precision, machine or campaign are not in the fit: by the errors of such groups when
they were held out of it.

Examples:
  isobar score                                                    # the scoreboard
  isobar score mine.csv --leave-out layout                        # your runs, whole layouts held out
  isobar score mine.csv --points 20                               # the error after twenty runs
  isobar score --leave-out campaign --points 1,3,10,20            # the same for campaigns left out
  isobar score configs/published/megatron_sc21.csv --spec --json)";

struct ScoreArguments {
  std::vector<std::string> tables, fit_on;
  std::string published, leave_out, machine;
  int folds = 0, up_to = 0;
  std::vector<int> points;
  bool experts = false, spec = false, json = false, rows = false;
};

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
                 {"new_share", r.news_share}});
  return j;
}

void print_line(const std::string& name, int refused, const Scores& s) {
  std::printf("%-36s %5zu %7d", name.c_str(), s.rows, refused);
  if (s.rows > 0)
    std::printf(" %7.1f %7.1f %7.1f %+7.1f", 100 * s.mape, 100 * s.median, 100 * s.p90, 100 * s.bias);
  if (s.rows > 0 && s.spearman)
    std::printf(" %6zu %8.2f", s.groups, *s.spearman);
  else if (s.rows > 0)
    std::printf(" %6zu %8s", s.groups, "-");
  if (s.rows > 0 && s.regret)
    std::printf(" %7.1f", 100 * *s.regret);
  else if (s.rows > 0)
    std::printf(" %7s", "-");
  if (s.rows > 0) std::printf(" %8.0f", 100 * s.coverage);
  std::printf("\n");
}

/// Rows whose interval is wide mostly because the fit has no run with one of their properties.
void print_news(const std::vector<ScoredRow>& rows) {
  std::map<std::string, std::vector<double>> widths;
  for (const ScoredRow& r : rows)
    if (r.news_share > 0.5) widths[r.news].push_back(r.upper / r.lower);
  for (const auto& [what, w] : widths)
    std::printf(
        "    not in the fit, and the largest share of the uncertainty: %s of %zu rows, upper over lower %.2f "
        "(median)\n",
        what.c_str(), w.size(), quantile(w, 0.5));
}

void print_reasons(const std::map<std::string, int>& refused) {
  for (const auto& [why, rows] : refused) std::printf("    refused %d: %s\n", rows, why.c_str());
}

int sum(const std::map<std::string, int>& refused) {
  int n = 0;
  for (const auto& [why, rows] : refused) n += rows;
  return n;
}

void print(const TableScore& s, const ScoreArguments& a) {
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
    std::printf("%s\n", json_text(j).c_str());
    return;
  }
  print_line(s.table, sum(s.refused), s.time);
  print_news(s.rows);
  if (s.fast) print_line("  rows with MFU 15 % or more", 0, *s.fast);
  if (s.memory) print_line("  memory", 0, *s.memory);
  if (const auto& c = s.outcomes) {
    std::printf(
        "    fits in memory: %.1f %% of %d predicted right; ran out: %d found, %d missed; fitted: %d found, "
        "%d missed\n",
        100 * c->right(), c->rows(), c->failed_called, c->failed_missed, c->fitted_called, c->fitted_missed);
    for (size_t i = 0; i < c->misses.size(); ++i)
      std::printf("%s%s%s", i % 6 == 0 ? "      misses: " : " ", c->misses[i].c_str(),
                  i % 6 == 5 || i + 1 == c->misses.size() ? "\n" : "");
  }
  print_reasons(s.refused);
}

void print(const CollectiveScore& s, const ScoreArguments& a) {
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
    std::printf("%s\n", json_text(j).c_str());
    return;
  }
  print_line(s.table, sum(s.refused), s.time);
  print_line("  64 MiB and more", 0, s.large);
  for (const auto& [tool, scores] : s.by_tool) {
    if (s.by_tool.size() < 2) break;
    print_line("  " + tool.substr(0, 34), 0, scores.first);
    print_line("    64 MiB and more", 0, scores.second);
  }
  print_reasons(s.refused);
}

void print(const CampaignsOut& out, const char* what, const ScoreArguments& a) {
  if (a.json) {
    for (const CampaignScore& c : out.campaigns) {
      nlohmann::json j = json_of(c.scores);
      j["campaign"] = c.campaign;
      j["quantity"] = what;
      if (a.rows) j["predictions"] = json_of(c.rows);
      std::printf("%s\n", json_text(j).c_str());
    }
    if (!out.open.empty()) {
      nlohmann::json j = json_of(score_rows(out.open));
      j["quantity"] = what;
      j["campaign"] = "rows that leave inputs open";
      if (a.rows) j["predictions"] = json_of(out.open);
      std::printf("%s\n", json_text(j).c_str());
    }
    const nlohmann::json all = {{"quantity", what},
                                {"campaigns", out.campaigns.size()},
                                {"median_mape", 100 * out.median_mape},
                                {"coverage", 100 * out.coverage},
                                {"least_coverage", 100 * out.least},
                                {"upper_over_lower", out.width}};
    std::printf("%s\n", json_text(all).c_str());
    return;
  }
  std::printf("%s\n", what);
  for (const CampaignScore& c : out.campaigns) print_line("  " + c.campaign, 0, c.scores);
  if (!out.open.empty()) {
    std::printf("rows that leave inputs open, over all that they may be of (measured: 1)\n");
    print_line("  all campaigns", 0, score_rows(out.open));
    print_news(out.open);
  }
  std::printf(
      "  median over %zu campaigns of the mean error %.1f %%; the 80 %% interval covers %.0f %% of all "
      "rows, %.0f %% of the campaign that has the least; upper over lower %.2f (median)\n",
      out.campaigns.size(), 100 * out.median_mape, 100 * out.coverage, 100 * out.least, out.width);
}

/// Accuracy by the number of a campaign's rows that are given to the fit.
void print(const std::vector<std::pair<int, CampaignsOut>>& few, const char* what, const ScoreArguments& a) {
  if (few.empty()) return;
  if (!a.json)
    std::printf("%s by rows given of the campaign, median over campaigns\n  %5s %9s %7s %8s %5s %12s\n", what,
                "given", "campaigns", "MAPE", "coverage", "least", "upper/lower");
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
      std::printf("%s\n", json_text(j).c_str());
    } else if (out.campaigns.empty()) {
      std::printf("  %5d %9d\n", given, 0);
    } else {
      std::printf("  %5d %9zu %7.1f %8.0f %5.0f %12.2f\n", given, out.campaigns.size(), 100 * out.median_mape,
                  100 * out.coverage, 100 * out.least, out.width);
    }
  }
}

JudgeOptions options_of(const ScoreArguments& a) {
  using Split = JudgeOptions::Split;
  JudgeOptions o;
  o.spec_only = a.spec;
  if (!a.points.empty()) {
    o.split = Split::points;
    o.points = a.points.front();
  } else if (a.up_to > 0) {
    o.split = Split::up_to;
    o.nodes = a.up_to;
  } else if (!a.leave_out.empty()) {
    o.split = a.leave_out == "layout" ? Split::layout : a.leave_out == "gpus" ? Split::gpus : Split::model;
  } else if (a.folds > 0) {
    o.folds = a.folds;
  } else if (!a.fit_on.empty()) {
    o.split = Split::none;
  }
  return o;
}

struct Scoreboard {
  Library tables;
  std::vector<CollectiveTable> collectives;
  std::map<const ChipSpec*, std::unique_ptr<ChipSpec>> chips;  // for the rates of --machine

  void take(const std::string& file, bool experts) {
    const CsvTable csv = read_csv(file);
    if (csv.has("collective"))
      collectives.push_back(collectives_from(csv));
    else
      tables.push_back(published_from(csv, experts));
  }
  void run_on(const Machine& machine) {
    for (PublishedTable& t : tables)
      for (std::vector<PublishedRun>* runs : {&t.runs, &t.outcomes})
        for (PublishedRun& r : *runs) {
          auto& chip = chips[r.gpu];
          if (!chip) chip = std::make_unique<ChipSpec>(at_rates_of(*r.gpu, machine));
          r.gpu = chip.get();
        }
  }
};

void score_campaigns(const Library& scored, const Library& others, const ScoreArguments& a) {
  for (const auto& [quantity, what] : {std::pair{&kStepSeconds, "step time"}, {&kPeakBytes, "peak memory"}}) {
    const CampaignsOut out = leave_campaigns_out(*quantity, scored, others);
    if (!out.campaigns.empty()) print(out, what, a);
    std::vector<std::pair<int, CampaignsOut>> few;
    if (!a.points.empty()) few.emplace_back(0, out);
    for (const int n : a.points)
      few.emplace_back(n, leave_campaigns_out(*quantity, scored, others, static_cast<size_t>(n)));
    print(few, what, a);
  }
  if (a.json) return;
  for (const PublishedTable& t : scored)
    if (t.runs.empty())
      std::printf("no run of %s can be specified: see isobar score %s\n", t.name.c_str(), t.name.c_str());
}

void run_score(const ScoreArguments& a) {
  const std::string tables = a.published.empty() ? shipped("configs/published") : a.published;
  Library others;
  for (const std::string& f : a.fit_on) others.push_back(read_published(f, a.experts));
  if (a.fit_on.empty()) others = load_library(tables, a.experts);
  Scoreboard board;
  for (const std::string& f : a.tables) board.take(f, a.experts);
  if (a.tables.empty()) {
    board.tables = load_library(tables, a.experts);
    if (std::filesystem::exists(tables + "/collectives.csv"))
      board.take(tables + "/collectives.csv", a.experts);
  }
  if (!a.machine.empty()) board.run_on(load_machine(a.machine));
  const bool campaigns = a.leave_out == "campaign";
  if (campaigns && !a.tables.empty() && !board.collectives.empty())
    throw ConfigError(a.tables.front(), "--leave-out campaign", "is for tables of training runs",
                      "leave tables of collectives out");
  const JudgeOptions options = options_of(a);
  if (!a.json)
    std::printf("%-36s %5s %7s %7s %7s %7s %7s %6s %8s %7s %8s\n", campaigns ? "campaign" : "table", "rows",
                "refused", "MAPE", "median", "p90", "bias", "groups", "Spearman", "regret", "coverage");
  if (campaigns) return score_campaigns(board.tables, others, a);
  for (const PublishedTable& t : board.tables) print(judge(t, others, options), a);
  for (const CollectiveTable& t : board.collectives) print(judge(t, options), a);
}

}  // namespace

void add_score_command(CLI::App& app) {
  auto a = std::make_shared<ScoreArguments>();
  CLI::App* score = app.add_subcommand("score", "Predict published runs unseen, and report the errors");
  score->footer(kScoreHelp);
  score->add_option("TABLES", a->tables,
                    "Tables of runs or collectives (CSV); none: those that ship with Isobar");
  add_machine_option(*score, a->machine,
                     "Machine file whose rates stand in for the chips that the rows name");
  score->add_option("--fit-on", a->fit_on, "Fit to these tables instead of the shipped ones");
  auto* folds =
      score->add_option("--folds", a->folds, "Cross-validation in K parts")->check(CLI::Range(2, 100));
  auto* leave =
      score->add_option("--leave-out", a->leave_out, "Hold out whole values: layout, gpus, model or campaign")
          ->check(CLI::IsMember({"layout", "gpus", "model", "campaign"}))
          ->excludes(folds);
  auto* points = score
                     ->add_option("--points", a->points,
                                  "Fit to N random rows of the table; N,M… of each campaign left out")
                     ->delimiter(',')
                     ->check(CLI::Range(1, 100000))
                     ->excludes(folds);
  score->add_option("--up-to", a->up_to, "Fit to runs on at most N nodes, score those on more")
      ->check(CLI::Range(1, 100000))
      ->excludes(folds)
      ->excludes(leave)
      ->excludes(points);
  score->add_flag("--spec", a->spec, "Spec sheet only, and one scale a machine family from other campaigns");
  score->add_flag("--experts", a->experts, "Take mixtures of experts too; else their rows are refused");
  score->add_option("--published", a->published, "Folder of the shipped tables (configs/published)");
  auto* json = score->add_flag("--json", a->json, "One JSON object a table, a line each");
  score->add_flag("--rows", a->rows, "With --json: every row's prediction too")->needs(json);
  score->callback([a, score] {
    refuse_unused(*score,
                  {{"--published", !a->tables.empty() && !a->fit_on.empty(),
                    "is not read: TABLES are scored, and --fit-on is fitted to", "leave it out"},
                   {"--points", !a->leave_out.empty() && a->leave_out != "campaign",
                    "says what is fitted to, as --leave-out does", "keep one, or leave out campaigns"},
                   {"--points", a->points.size() > 1 && a->leave_out.empty(),
                    "is one number where tables are scored", "give one, or add --leave-out campaign"},
                   {"--spec", a->leave_out == "campaign", "says what is fitted to, as --leave-out campaign",
                    "keep one of the two"}});
    run_score(*a);
  });
}

}  // namespace isobar
