#include "bench/cli/predict/fit_engine.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/import/training_log.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "perfmodel/machine/machine_file.h"
#include "perfmodel/score/prices/own_fit.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

json json_of_scores(const std::vector<perf::ScoredRow>& rows) {
  const perf::Scores s = perf::score_rows(rows);
  return {{"rows", s.rows}, {"mape", 100 * s.mape}, {"coverage", 100 * s.coverage}};
}

void print_scores(const char* how, const std::vector<perf::ScoredRow>& rows) {
  size_t inside = 0;
  for (const perf::ScoredRow& r : rows) inside += r.inside() ? 1 : 0;
  std::printf("  %-28s mean error %.1f %%, the 80 %% interval covers %zu of %zu\n", how,
              100 * perf::score_rows(rows).mape, inside, rows.size());
}

}  // namespace

void fit_own_runs(const OwnRunsQuestion& q) {
  const perf::Machine machine = perf::load_machine(q.machine);
  if (!machine.accelerator)
    throw ConfigError(q.machine, "accelerator", "is missing: --engine is of runs on accelerators",
                      "name a machine like configs/machines/dgx-h100.yaml");
  const std::string& name = q.files.front();
  std::vector<std::string> notes;
  const perf::OwnRuns own =
      perf::own_runs(foreign::own_table(q.files, q.config, notes), name, q.engine, q.tuned, machine);
  for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
  const perf::OwnFit fit = perf::fit_own(own, machine);
  perf::save_own_runs(own, q.out);
  if (q.json) {
    const json j = {{"file", q.out},
                    {"engine", q.engine},
                    {"machine", machine.name},
                    {"runs", fit.without.size()},
                    {"without", json_of_scores(fit.without)},
                    {"from_the_others", json_of_scores(fit.left_out)}};
    std::printf("%s\n", json_text(j, 1).c_str());
    return;
  }
  std::printf("%zu runs of %s by %s on %s; errors of predicted step times\n", fit.without.size(),
              name.c_str(), q.engine.c_str(), machine.name.c_str());
  print_scores("with none of them fitted", fit.without);
  print_scores("each held out", fit.left_out);
  std::printf("Fit: %s (isobar predict CONFIG --machine %s --fit %s)\n", q.out.c_str(), q.machine.c_str(),
              q.out.c_str());
}

}  // namespace isobar::cli
