// isobar fit: the command line of perfmodel's fit.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/words/options.h"
#include "bench/import/training_log.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "perfmodel/ask/choose/question.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/own_runs.h"
#include "perfmodel/step/engine_prices.h"
#include "reports/answers/fit_text.h"

namespace isobar::cli {
namespace {

// isobar fit RUNS.csv --engine E, or logs of runs: fits an engine on a machine to the user's own runs.

struct OwnRunsQuestion {
  std::vector<std::string> files;  // one table; or logs of trainings, one run each
  std::string config;              // supplies what logs leave out; "": nothing
  std::string machine, engine, out;
  std::optional<double> tuned;  // 0 … 1; none: the engine's default
  bool json = false;
};

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

/// Writes the fit, and prints the errors of predictions of these runs, without the fit and cross-validated.
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
  const perf::ChipSpec chip = perf::chip_of(machine);
  perf::EngineModel model =
      perf::EngineModel::shipped(q.engine == "unknown" ? nullptr : &perf::engine_named(q.engine), q.tuned);
  const std::vector<perf::PublishedRun> runs = perf::runs_of(own, machine, chip);
  std::vector<perf::ScoredRow> without;
  for (const perf::PublishedRun& r : runs) {
    const perf::Estimated e = model.predict(r).step;
    without.push_back({r.id, r.choice_group(), r.step_s, e.value, e.lower, e.upper, r.specification()});
  }
  model.learn(runs);
  const std::vector<perf::ScoredRow> left_out = model.left_out();
  perf::save_own_runs(own, q.out);
  if (q.json) {
    const json j = {{"file", q.out},
                    {"engine", q.engine},
                    {"machine", machine.name},
                    {"runs", without.size()},
                    {"without", json_of_scores(without)},
                    {"from_the_others", json_of_scores(left_out)}};
    std::printf("%s\n", json_text(j, 1).c_str());
    return;
  }
  std::printf("%zu runs of %s by %s on %s; errors of predicted step times\n", without.size(), name.c_str(),
              q.engine.c_str(), machine.name.c_str());
  print_scores("with none of them fitted", without);
  print_scores("each held out", left_out);
  std::printf("Fit: %s (isobar predict CONFIG --machine %s --fit %s)\n", q.out.c_str(), q.machine.c_str(),
              q.out.c_str());
}

constexpr const char* kFitHelp =
    R"(Fits the coefficients of a machine file to the measured runs of a sweep.

A step's prediction is a sum of counted terms (FLOPs, bytes, ops, messages, samples) times coefficients with
units. The fit takes the machine file (of `isobar calibrate`, or a spec sheet) as its prior and fits op times first,
where runs have them, then whole steps. Twenty runs are enough. FITTED is a machine file too, in which every
coefficient names the runs that determined it; the residuals set the width of every prediction's interval.

With --holdout a random part of the runs, balanced over everything that the sweep varied, is kept out of the fit and
then predicted: the test of the fit. It is written to DIR/holdout.json, which `isobar report` shows. Repetitions of a
setting are held out together; each setting is then judged by the median of its repetitions as well, beside how far
single repetitions differ.

Runs on accelerators, yours or published ones, are read by `isobar import` and fitted with a cluster's machine file;
the closed form predicts them. Several tables may go into one directory: differences between campaigns (engine,
cluster) are then a random effect beside the coefficients, and predictions for another campaign are as much wider.

Runs of run.command without a `net:` section are fitted by their settings alone: a regression of the log step time
on what the sweep varied, without a machine. FITTED is then for `isobar predict CONFIG --fit FITTED`.

Runs of recorded nets (net.kind traced) are PyTorch's, and so are a sweep's with --engine pytorch or pytorch-compiled:
FITTED then prices such runs alone.

With any other --engine the runs are in a CSV table or as logs of Megatron-LM, NeMo, torchtitan, MLPerf or
PyTorch traces (isobar import --help; --config RUN.yaml says what they leave out), and the file that is written is for
`isobar predict --fit` and `search --fit`: published runs of that engine and of similar ones are the prior; one row fits an overall scale,
a few more the coefficients. Columns: arch layers hidden heads seq_len, gpus, tp, pp, micro_batch, global_batch, and
one of step_time_s, tokens_per_s_per_gpu, samples_per_s; dp, cp, vpp, kv_heads, ffn_hidden, vocab, precision, recompute,
zero_stage, sequence_parallel, flash_attention, memory_gb … where they differ from what is usual
(configs/published/README.md). How wrong such predictions are by the number of rows: isobar score --leave-out
campaign --points 1,3,10,20.

Examples:
  isobar fit mine.csv --machine dgx-h100 --engine nemo -o mine-fit.json
  isobar fit tp4.log tp8.log --machine dgx-h100 --engine megatron -o mine-fit.json
  isobar search configs/models/llama3-70b.yaml --machine dgx-h100 --fit mine-fit.json --gpus 64
  isobar import runs.csv -o results/mine
  isobar fit results/mine --machine configs/machines/dgx-a100.yaml -o results/fitted.yaml --holdout 0.5 --by layout
  isobar fit results/demo --machine results/machine.yaml -o results/fitted.yaml
  isobar fit results/demo --machine results/machine.yaml -o results/fitted.yaml --holdout 0.5 --seed 3
  isobar predict configs/models/vit-384.yaml --machine results/fitted.yaml)";

struct FitArguments {
  std::vector<std::string> files;
  std::string dir, machine, out, config;  // dir: the only entry of files
  double holdout = -1, fraction = -1;
  uint64_t seed = 0;
  std::vector<std::string> train_ids;
  Statistic statistic = kStatistic;
  int64_t splits = 1;
  bool json = false;
  std::string by = "run";
  std::string engine;
  std::optional<double> tuned;
};

perf::HeldOut split_of(const FitArguments& a, const std::vector<perf::MeasuredRun>& runs) {
  perf::HeldOut s;
  if (!a.train_ids.empty()) {
    for (const std::string& id : a.train_ids)
      if (std::none_of(runs.begin(), runs.end(), [&](const perf::MeasuredRun& r) { return r.id == id; }))
        throw ConfigError("isobar fit", "--train-ids", "there is no successful run " + id + " in " + a.dir,
                          "see `isobar report` for their ids");
    for (size_t i = 0; i < runs.size(); ++i) {
      const bool train = std::find(a.train_ids.begin(), a.train_ids.end(), runs[i].id) != a.train_ids.end();
      (train ? s.train : s.test).push_back(i);
    }
    return s;
  }
  const double fitted = a.fraction >= 0 ? a.fraction : a.holdout >= 0 ? 1 - a.holdout : 1;
  s = perf::split_runs(runs, fitted, a.seed,
                       a.by == "layout" ? perf::Together::layout : perf::Together::specification);
  if (s.train.empty())
    throw ConfigError("isobar fit", "--holdout", "leaves no run to fit to",
                      "hold out less, or run more trials");
  return s;
}

/// Those of --splits: none where nothing is held out.
std::vector<perf::HeldOut> repeated_splits(FitArguments a, const std::vector<perf::MeasuredRun>& runs) {
  std::vector<perf::HeldOut> splits;
  if (a.splits < 2 || split_of(a, runs).test.empty()) return splits;
  for (int64_t i = 0; i < a.splits; ++i, ++a.seed) splits.push_back(split_of(a, runs));
  return splits;
}

template <class Report>
void tell(const FitArguments& a, const Report& report, const std::string& where) {
  if (a.json) {
    nlohmann::json out = report::json_of(report);
    out["file"] = a.out;
    std::printf("%s\n", json_text(out, 1).c_str());
  } else {
    std::printf("%s%s\n", report::text_of(report).c_str(), where.c_str());
  }
}

perf::UsableRuns runs_of(const FitArguments& a) {
  perf::UsableRuns u = perf::usable_runs(a.dir, a.statistic);
  for (const std::string& p : u.problems) std::fprintf(stderr, "warning: %s\n", p.c_str());
  if (u.ignored > 0 && !a.json)
    std::fprintf(stderr, "%zu runs are ignored: they have no step time, or settings of other engines alone\n",
                 u.ignored);
  if (u.runs.empty())
    throw ConfigError(a.dir, "", "holds no successful run",
                      "run `isobar sweep SWEEP.yaml --results " + a.dir + "`");
  return u;
}

/// Runs of programs whose nets are not described.
void fit_by_settings(const FitArguments& a, const perf::UsableRuns& u) {
  const std::vector<perf::MeasuredRun>& runs = u.runs;
  if (!a.machine.empty())
    throw ConfigError("isobar fit", "--machine",
                      "prices nets, and these runs describe none (run.by_settings)",
                      "leave it out, or describe the net under `net:` and run the sweep again");
  const perf::HeldOut split = split_of(a, runs);
  const std::vector<perf::MeasuredRun> train = perf::pick(runs, split.train),
                                       test = perf::pick(runs, split.test);
  const std::vector<perf::HeldOut> splits = repeated_splits(a, runs);
  const perf::SettingsFit m(train);
  write_atomically(a.out, json_text(m.to_json(), 1) + "\n");
  const report::SettingsReport report{
      .fit = m,
      .statistic = a.statistic,
      .runs = runs,
      .between = u.between,
      .fitted = perf::hold_out(train, m),
      .held_out = perf::hold_out(test, m),
      .repeated = splits.empty() ? perf::RepeatedHoldout{} : perf::repeat_hold_out(runs, splits)};
  if (!test.empty())
    write_atomically(std::filesystem::path(a.dir) / "holdout.json",
                     json_text(perf::holdout_json(a.statistic, report.fitted, report.held_out), 1) + "\n");
  tell(a, report, "Fit: " + a.out);
}

bool are_by_settings(const perf::UsableRuns& u, const std::string& dir) {
  const auto by = std::count_if(u.runs.begin(), u.runs.end(),
                                [](const perf::MeasuredRun& r) { return r.spec.run.by_settings; });
  if (by != 0 && by != static_cast<int64_t>(u.runs.size()))
    throw ConfigError(dir, "run.by_settings", "is true in some runs and not in others",
                      "fit each in a folder of its own");
  return by != 0;
}

void run_fit(const FitArguments& a) {
  const perf::UsableRuns usable = runs_of(a);
  if (are_by_settings(usable, a.dir)) return fit_by_settings(a, usable);
  if (a.machine.empty())
    throw ConfigError("isobar fit", "--machine", "is missing",
                      "name a machine file, as isobar calibrate writes it");
  const auto& [runs, between, ignored, problems] = usable;
  const RunSpec& one = runs.front().spec;
  const perf::Machine given = perf::load_machine(a.machine);
  const perf::Machine before = a.engine.empty()
                                   ? perf::machine_of(one, given)
                                   : perf::run_by(perf::engine_named(a.engine), given, one.net.recorded());
  const perf::HeldOut split = split_of(a, runs);
  const std::vector<perf::MeasuredRun> train = perf::pick(runs, split.train),
                                       test = perf::pick(runs, split.test);
  const std::vector<perf::HeldOut> splits = repeated_splits(a, runs);
  const perf::Machine m = perf::fit(train, before, a.statistic);
  perf::save_machine(m, a.out);
  const report::FitReport report{.before = before,
                                 .after = m,
                                 .runs = runs,
                                 .between = between,
                                 .fitted = perf::hold_out(train, m),
                                 .held_out = perf::hold_out(test, m),
                                 .memory = perf::memory_of(runs, m, cpu_workspace),
                                 .repeated = splits.empty()
                                                 ? perf::RepeatedHoldout{}
                                                 : perf::repeat_hold_out(runs, before, a.statistic, splits)};
  const std::filesystem::path holdout = std::filesystem::path(a.dir) / "holdout.json";
  if (!test.empty())
    write_atomically(holdout, json_text(perf::holdout_json(m, report.fitted, report.held_out), 1) + "\n");
  tell(a, report, "Machine: " + a.out + (test.empty() ? "" : "; held-out runs: " + holdout.string()));
}

}  // namespace

void add_fit_command(CLI::App& app) {
  auto a = std::make_shared<FitArguments>();
  CLI::App* fit = app.add_subcommand("fit", "Fit a machine's coefficients to measured runs, with intervals");
  fit->footer(kFitHelp);
  fit->add_option("DIR", a->files, "Results of a sweep; with --engine a table of runs (CSV), or their logs")
      ->required();
  add_machine_option(*fit, a->machine,
                     "Machine file to start from (isobar calibrate); none for runs that describe no net");
  fit->add_option("-o,--out", a->out, "Machine file to write; with --engine the fit")->required();
  auto* holdout =
      fit->add_option("--holdout", a->holdout, "Share of the runs to keep out and predict, e.g. 0.5")
          ->check(number_in(0, 1));
  auto* fraction = fit->add_option("--fraction", a->fraction, "Share of the runs to fit to: 1 - holdout")
                       ->check(number_in(0, 1))
                       ->excludes(holdout);
  fit->add_option("--seed", a->seed, "Seed of the random part that is held out")->capture_default_str();
  fit->add_option("--splits", a->splits, "Repeat the held-out test over this many random parts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  fit->add_option("--by", a->by, "What is held out: single runs, or all runs of a layout and its policy")
      ->check(CLI::IsMember({"run", "layout"}))
      ->capture_default_str();
  fit->add_option("--train-ids", a->train_ids, "Fit to exactly these runs, hold out all others")
      ->delimiter(',')
      ->excludes(holdout)
      ->excludes(fraction);
  add_statistic_option(*fit, a->statistic, "; p10 or min on a machine that others use");
  fit->add_option("--engine", a->engine,
                  "Software that ran the table's runs: a file of configs/engines, or unknown");
  fit->add_option("--config", a->config, "Run configuration that says what the logs of --engine leave out");
  fit->add_option("--tuned", a->tuned, "How tuned that engine is: 0 research code … 1 MLPerf")
      ->check(number_in(0, 1));
  fit->add_flag("--json", a->json, "Print JSON on stdout instead of tables");
  fit->callback([a, fit] {
    a->dir = a->files.front();
    const bool all = a->train_ids.empty() && a->holdout <= 0 && (a->fraction < 0 || a->fraction == 1);
    const bool by_chance = !all && a->train_ids.empty();
    for (const char* option : {"--seed", "--splits", "--by"})
      refuse_unused(*fit,
                    {{option, !by_chance, "is of a random part that is held out", "add --holdout 0.5"}});
    const bool foreign = !a->engine.empty() && perf::EngineQuestion{.engine = a->engine}.foreign();
    if (a->engine == "isobar")
      throw ConfigError("isobar fit", "--engine", "isobar is what is fitted without it", "leave it out");
    if (!foreign && std::filesystem::path(a->dir).extension() == ".csv")
      throw ConfigError(a->dir, "--engine",
                        "is missing: a table of runs does not say whose software ran them",
                        "name it, or import the table and fit the directory");
    for (const char* option : {"--holdout", "--fraction", "--train-ids", "--statistic"})
      refuse_unused(*fit, {{option, foreign, "is of a sweep's runs", "leave it or --engine out"}});
    for (const char* option : {"--tuned", "--config"})
      refuse_unused(*fit, {{option, !foreign, "is of other engines", "name one with --engine"}});
    if (foreign && a->machine.empty())
      throw ConfigError("isobar fit", "--machine", "is missing", "name a machine like dgx-h100");
    if (foreign) return fit_own_runs({a->files, a->config, a->machine, a->engine, a->out, a->tuned, a->json});
    if (a->files.size() > 1)
      throw ConfigError(a->files[1], "", "comes behind the results of a sweep",
                        "fit one directory at a time");
    run_fit(*a);
  });
}

}  // namespace isobar::cli
