#include "bench/cli/fit_engine.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/import/training_log.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/own_runs.h"

namespace isobar {
namespace {

using nlohmann::json;

json json_of_scores(const std::vector<ScoredRow>& rows) {
  const Scores s = score_rows(rows);
  return {{"rows", s.rows}, {"mape", 100 * s.mape}, {"coverage", 100 * s.coverage}};
}

void print_scores(const char* how, const std::vector<ScoredRow>& rows) {
  size_t inside = 0;
  for (const ScoredRow& r : rows) inside += r.inside() ? 1 : 0;
  std::printf("  %-28s mean error %.1f %%, the 80 %% interval covers %zu of %zu\n", how,
              100 * score_rows(rows).mape, inside, rows.size());
}

/// The given table, or one made from the logs.
std::string table_of(const OwnRunsQuestion& q) {
  if (std::filesystem::path(q.files.front()).extension() == ".csv") {
    if (q.files.size() > 1)
      throw ConfigError(q.files[1], "", "comes behind a table", "put all runs into one table");
    if (!q.config.empty())
      throw ConfigError(q.files.front(), "--config", "is for logs", "the table's columns say what was run");
    return read_file(q.files.front(), most::table);
  }
  std::vector<LoggedRun> runs;
  // A trace is one rank's; several traces are one run's.
  if (log_kind(read_file(q.files.front())) == LogKind::kineto)
    runs.push_back(read_training_log(q.files, q.config));
  else
    for (const std::string& f : q.files) runs.push_back(read_training_log({f}, q.config));
  return isobar::table_of(runs);
}

}  // namespace

void fit_own_runs(const OwnRunsQuestion& q) {
  const Machine machine = load_machine(q.machine);
  if (!machine.accelerator)
    throw ConfigError(q.machine, "accelerator", "is missing: --engine is of runs on accelerators",
                      "name a machine like configs/machines/dgx-h100.yaml");
  const ChipSpec chip = chip_of(machine);
  const std::string& name = q.files.front();
  const OwnRuns own = own_runs(table_of(q), name, q.engine, q.tuned, machine);
  const ForeignEngine* engine = q.engine == "unknown" ? nullptr : &engine_named(q.engine);
  EngineModel model = EngineModel::shipped(engine, q.tuned);
  const std::vector<PublishedRun> runs = runs_of(own, machine, chip);
  std::vector<ScoredRow> before;
  for (const PublishedRun& r : runs) {
    const Estimated e = model.predict(r).step;
    before.push_back({r.id, r.choice_group(), r.step_s, e.value, e.lower, e.upper, r.specification()});
  }
  model.learn(runs);
  const std::vector<ScoredRow> left_out = model.left_out();
  save_own_runs(own, q.out);
  if (q.json) {
    const json j = {{"file", q.out},
                    {"engine", q.engine},
                    {"machine", machine.name},
                    {"runs", runs.size()},
                    {"without", json_of_scores(before)},
                    {"from_the_others", json_of_scores(left_out)}};
    std::printf("%s\n", json_text(j, 1).c_str());
    return;
  }
  std::printf("%zu runs of %s by %s on %s; errors of predicted step times\n", runs.size(), name.c_str(),
              q.engine.c_str(), machine.name.c_str());
  print_scores("with none of them fitted", before);
  print_scores("each held out", left_out);
  std::printf("Fit: %s (isobar predict CONFIG --machine %s --fit %s)\n", q.out.c_str(), q.machine.c_str(),
              q.out.c_str());
}

}  // namespace isobar
