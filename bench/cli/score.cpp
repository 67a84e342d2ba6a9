// isobar score: the command line of perfmodel/score's referee.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "model/base/error.h"
#include "perfmodel/score/referee.h"

namespace isobar {
namespace {

constexpr const char* kHelp = R"(Runs the predictor over tables of measured runs and prints how wrong it was.)";

struct Arguments {
  std::vector<std::string> tables, fit_on;
  std::string published, leave_out, machine;
  int folds = 0, points = 0, up_to = 0;
  bool experts = false, spec = false, json = false, rows = false;
};

nlohmann::json json_of(const Scores& s) {
  nlohmann::json j = {{"rows", s.rows}};
  for (const char* key : {"mape", "median", "p90", "bias", "spearman", "regret", "coverage"}) j[key] = nullptr;
  if (s.rows == 0) return j;
  j["mape"] = 100 * s.mape;
  j["median"] = 100 * s.median;
  j["p90"] = 100 * s.p90;
  j["bias"] = 100 * s.bias;
  j["coverage"] = 100 * s.coverage;
  j["groups"] = s.groups;
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

void print_line(const std::string& name, int refused, const Scores& s) {
  std::printf("%-34s %5zu %7d", name.c_str(), s.rows, refused);
  if (s.rows == 0) {
    std::printf("\n");
    return;
  }
  std::printf(" %7.1f %7.1f %7.1f %+7.1f", 100 * s.mape, 100 * s.median, 100 * s.p90, 100 * s.bias);
  if (s.spearman)
    std::printf(" %6zu %8.2f %7.1f", s.groups, *s.spearman, 100 * *s.regret);
  else
    std::printf(" %6zu %8s %7s", s.groups, "-", "-");
  std::printf(" %8.0f\n", 100 * s.coverage);
}

void run(const Arguments& a) {
  const std::string shipped = a.published.empty() ? "configs/published" : a.published;
  Library others;
  for (const std::string& f : a.fit_on) others.push_back(read_published(f, a.experts));
  if (a.fit_on.empty()) others = load_library(shipped, a.experts);
  Library scored;
  std::vector<CollectiveTable> collectives;
  const auto take = [&](const std::string& file) {
    const CsvTable csv = read_csv(file);
    if (csv.has("collective"))
      collectives.push_back(collectives_from(csv));
    else
      scored.push_back(published_from(csv, a.experts));
  };
  for (const std::string& f : a.tables) take(f);
  if (a.tables.empty()) {
    scored = load_library(shipped, a.experts);
    take(shipped + "/collectives.csv");
  }
  JudgeOptions o;
  using Split = JudgeOptions::Split;
  o.spec_only = a.spec;
  if (a.points > 0) {
    o.split = Split::points;
    o.points = a.points;
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
  if (!a.json)
    std::printf("%-34s %5s %7s %7s %7s %7s %7s %6s %8s %7s %8s\n", "table", "rows", "refused", "MAPE", "median", "p90",
                "bias", "groups", "Spearman", "regret", "coverage");
  for (const PublishedTable& t : scored) {
    const TableScore s = judge(t, others, o);
    if (a.json) {
      nlohmann::json j = json_of(s.time);
      j["table"] = s.table;
      j["refused"] = t.refused_rows();
      j["reasons"] = s.refused;
      if (s.fast) j["mfu_15"] = json_of(*s.fast);
      if (s.memory) j["memory"] = json_of(*s.memory);
      if (s.outcomes) j["outcomes"] = json_of(*s.outcomes);
      if (a.rows)
        for (const ScoredRow& r : s.rows)
          j["row"].push_back({{"id", r.id}, {"measured_s", r.measured}, {"predicted_s", r.predicted}, {"lower_s", r.lower}, {"upper_s", r.upper}});
      if (a.rows)
        for (const ScoredRow& r : s.memory_rows)
          j["memory_row"].push_back({{"id", r.id}, {"measured", r.measured}, {"predicted", r.predicted}, {"lower", r.lower}, {"upper", r.upper}});
      std::printf("%s\n", j.dump().c_str());
      continue;
    }
    print_line(s.table, t.refused_rows(), s.time);
    if (s.fast) print_line("  of them, MFU 15 % or more", 0, *s.fast);
    if (s.memory) print_line("  memory", 0, *s.memory);
    if (s.outcomes)
      std::printf("  outcomes: %.1f %% of %d right; out of memory: %d called, %d missed; fitted: %d called, %d missed\n", 100 * s.outcomes->right(), s.outcomes->rows(), s.outcomes->failed_called, s.outcomes->failed_missed, s.outcomes->fitted_called, s.outcomes->fitted_missed);
    for (const auto& [why, n] : s.refused) std::printf("  refused %d: %s\n", n, why.c_str());
  }
  for (const CollectiveTable& t : collectives) {
    const CollectiveScore s = judge(t, o);
    int refused = 0;
    for (const auto& [why, n] : s.refused) refused += n;
    if (a.json) {
      nlohmann::json j = json_of(s.time);
      j["table"] = s.table;
      j["refused"] = refused;
      j["reasons"] = s.refused;
      j["over_64_mib"] = json_of(s.large);
      for (const auto& [tool, scores] : s.by_tool) {
        j["tools"][tool] = json_of(scores.first);
        j["tools"][tool]["over_64_mib"] = json_of(scores.second);
      }
      std::printf("%s\n", j.dump().c_str());
      continue;
    }
    print_line(s.table, refused, s.time);
    print_line("  64 MiB and more", 0, s.large);
    for (const auto& [tool, scores] : s.by_tool) {
      print_line("  " + tool.substr(0, 30), 0, scores.first);
      print_line("    64 MiB and more", 0, scores.second);
    }
    for (const auto& [why, n] : s.refused) std::printf("  refused %d: %s\n", n, why.c_str());
  }
}

}  // namespace

void add_score_command(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* score = app.add_subcommand("score", "Predicts measured runs it never saw, and says how wrong it was");
  score->footer(kHelp);
  score->add_option("TABLES", a->tables, "Tables of runs (CSV); none: those that ship with Isobar");
  score->add_option("--fit-on", a->fit_on, "Fit to these tables instead of the shipped ones");
  auto* folds = score->add_option("--folds", a->folds, "Cross-validation in K parts (5)")->check(CLI::Range(2, 100));
  auto* leave = score->add_option("--leave-out", a->leave_out, "Hold out whole values: layout, gpus, model")
      ->check(CLI::IsMember({"layout", "gpus", "model"}))->excludes(folds);
  score->add_option("--points", a->points, "Fit to N random rows of the table only")->check(CLI::Range(1, 100000))->excludes(folds)->excludes(leave);
  score->add_option("--up-to", a->up_to, "Fit to runs of at most N nodes, score those of more")->check(CLI::Range(1, 100000))->excludes(folds)->excludes(leave);
  score->add_flag("--spec", a->spec, "Spec sheet only: nothing fitted but a scale a machine family, from other tables");
  score->add_flag("--experts", a->experts, "Take mixtures of experts too; else their rows are refused");
  score->add_option("--machine", a->machine, "Machine file whose rates stand in for the spec sheet");
  score->add_option("--published", a->published, "Folder of the shipped tables (configs/published)");
  score->add_flag("--json", a->json, "One JSON object a table");
  score->add_flag("--rows", a->rows, "With --json: every row's prediction");
  score->callback([a] { run(*a); });
}

}  // namespace isobar
