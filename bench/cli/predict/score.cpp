// isobar score: the command line of perfmodel/score's referee.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/machine/shipped.h"
#include "reports/answers/score_text.h"

namespace isobar::cli {
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

What is printed, in percent: mean, median, 90th percentile and bias of predicted over measured step time; beside them
("constant") the mean error of a constant MFU: the median of other campaigns on the same chip in the same precision; over groups
of at least five choices with the same model, machine, GPUs and batch (rows that repeat a specification are one), rank
correlation (Spearman, at most 1) and regret (extra time of the choice with the shortest prediction); coverage, the
share of rows inside the 80 % interval. The same for peak memory, where rows have it, and whether runs out of memory
were predicted, where tables have them. Where rows leave out the engine, attention kernel, schedule, sequence
parallelism, ZeRO stage or parts of the layout, the answer is over all that other campaigns chose there, and lines
"not said" give what was assumed and what would narrow it. Rows without net, GPUs or time are refused with the reason. Intervals are wider
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
  bool spec = false, json = false, rows = false;
};

report::ScoreView view_of(const ScoreArguments& a) {
  return {a.json, a.rows};
}

perf::JudgeOptions options_of(const ScoreArguments& a) {
  using Split = perf::JudgeOptions::Split;
  perf::JudgeOptions o;
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
  perf::Library tables;
  std::vector<perf::CollectiveTable> collectives;
  std::map<const perf::ChipSpec*, std::unique_ptr<perf::ChipSpec>> chips;  // for the rates of --machine

  void take(const std::string& file) {
    const CsvTable csv = read_csv(file);
    if (csv.has("collective"))
      collectives.push_back(perf::collectives_from(csv));
    else
      tables.push_back(perf::published_from(csv));
  }
  void run_on(const perf::Machine& machine) {
    for (perf::PublishedTable& t : tables)
      for (std::vector<perf::PublishedRun>* runs : {&t.runs, &t.outcomes})
        for (perf::PublishedRun& r : *runs) {
          auto& chip = chips[r.gpu];
          if (!chip) chip = std::make_unique<perf::ChipSpec>(perf::at_rates_of(*r.gpu, machine));
          r.gpu = chip.get();
        }
  }
};

/// Ends with an error for a user's table of which nothing was predicted.
void refuse_whole(const perf::PublishedTable& t) {
  for (const auto& [why, line] : t.first_refused)
    throw ConfigError(t.file, "line " + std::to_string(line), "is refused, like all other rows: " + why,
                      "give what is missing (configs/published/README.md)");
  throw ConfigError(t.file, "", "has no run with a time",
                    "add one, or score it without --leave-out campaign");
}

void score_campaigns(const perf::Library& scored, const perf::Library& others, const ScoreArguments& a) {
  for (const auto& [quantity, what] :
       {std::pair{&perf::kStepSeconds, "step time"}, {&perf::kPeakBytes, "peak memory"}}) {
    const perf::CampaignsOut out = perf::leave_campaigns_out(*quantity, scored, others);
    if (!out.campaigns.empty() || !out.open.empty())
      std::fputs(report::shown(out, what, view_of(a)).c_str(), stdout);
    std::vector<std::pair<int, perf::CampaignsOut>> few;
    if (!a.points.empty()) few.emplace_back(0, out);
    for (const int n : a.points)
      few.emplace_back(n, perf::leave_campaigns_out(*quantity, scored, others, static_cast<size_t>(n)));
    std::fputs(report::shown(few, what, view_of(a)).c_str(), stdout);
  }
  for (const perf::PublishedTable& t : scored) {
    if (!t.runs.empty() || !t.open.empty()) continue;
    if (!a.json) std::fputs(report::refusals(t).c_str(), stdout);
    if (!a.tables.empty()) refuse_whole(t);
  }
}

void score_tables(const Scoreboard& board, const perf::Library& others, const ScoreArguments& a) {
  const perf::JudgeOptions options = options_of(a);
  for (const perf::PublishedTable& t : board.tables)
    std::fputs(report::shown(perf::judge(t, others, options), view_of(a)).c_str(), stdout);
  for (const perf::CollectiveTable& t : board.collectives)
    std::fputs(report::shown(perf::judge(t, options), view_of(a)).c_str(), stdout);
}

/// Ends with an error where rows name chips that have no machine file: their answers are missing.
void refuse_unknown_chips(const perf::Library& tables) {
  for (const perf::PublishedTable& t : tables)
    for (const auto& [name, line] : t.unknown_chips)
      throw ConfigError(t.file, "line " + std::to_string(line) + ", gpu_type", perf::unknown_chip(name),
                        "use one of them, or add a machine file (configs/README.md)");
}

void run_score(const ScoreArguments& a) {
  const std::string tables = a.published.empty() ? perf::shipped("configs/published") : a.published;
  perf::Library others;
  for (const std::string& f : a.fit_on) others.push_back(perf::read_published(f));
  if (a.fit_on.empty()) others = perf::load_library(tables);
  Scoreboard board;
  for (const std::string& f : a.tables) board.take(f);
  if (a.tables.empty()) {
    board.tables = perf::load_library(tables);
    if (std::filesystem::exists(tables + "/collectives.csv")) board.take(tables + "/collectives.csv");
  }
  if (!a.machine.empty()) board.run_on(perf::load_machine(a.machine));
  const bool campaigns = a.leave_out == "campaign";
  if (campaigns && !a.tables.empty() && !board.collectives.empty())
    throw ConfigError(a.tables.front(), "--leave-out campaign", "is for tables of training runs",
                      "leave tables of collectives out");
  if (!a.json) std::fputs(report::score_header(campaigns ? "campaign" : "table").c_str(), stdout);
  if (campaigns)
    score_campaigns(board.tables, others, a);
  else
    score_tables(board, others, a);
  refuse_unknown_chips(board.tables);
}

}  // namespace

void add_score_command(CLI::App& app) {
  auto a = std::make_shared<ScoreArguments>();
  CLI::App* score = app.add_subcommand("score", "Predict published runs unseen, and report the errors");
  score->footer([] {
    std::string engines;
    for (const std::string& name : perf::engine_names()) engines += " " + name;
    return std::string(kScoreHelp) + "\n\nEngines (column engine, or by their names in framework):" + engines;
  });
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
  score->add_option("--published", a->published, "Folder of the shipped tables (configs/published)");
  auto* json =
      score->add_flag("--json", a->json, "One JSON object a table or campaign and quantity, a line each");
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

}  // namespace isobar::cli
