// isobar fit: the command line of perfmodel's fit.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/fit_engine.h"
#include "bench/cli/fit_memory.h"
#include "bench/cli/machine_option.h"
#include "bench/cli/measured.h"
#include "bench/cli/options.h"
#include "bench/sweep/naming.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"
#include "perfmodel/holdout.h"

namespace isobar {
namespace {

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

With --engine the runs are of another engine, in a CSV table or as logs of Megatron-LM, NeMo, torchtitan, MLPerf or
PyTorch traces (isobar import --help; --config RUN.yaml says what they leave out), and the file that is written is for
`isobar predict --fit`: published runs of that engine and of similar ones are the prior; one row fits an overall scale,
a few more the coefficients. Columns: arch layers hidden heads seq_len, gpus, tp, pp, micro_batch, global_batch, and
one of step_time_s, tokens_per_s_per_gpu, samples_per_s; dp, cp, vpp, kv_heads, ffn_hidden, vocab, precision, recompute,
zero_stage, sequence_parallel, flash_attention, memory_gb … where they differ from what is usual
(configs/published/README.md). How wrong such predictions are by the number of rows: isobar score --leave-out
campaign --points 1,3,10,20.

Examples:
  isobar fit mine.csv --machine dgx-h100 --engine nemo -o mine-fit.json
  isobar fit tp4.log tp8.log --machine dgx-h100 --engine megatron -o mine-fit.json
  isobar predict configs/models/llama3-70b.yaml --machine dgx-h100 --fit mine-fit.json --gpus 64
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

HeldOut split_of(const FitArguments& a, const std::vector<MeasuredRun>& runs) {
  HeldOut s;
  if (!a.train_ids.empty()) {
    for (const std::string& id : a.train_ids)
      if (std::none_of(runs.begin(), runs.end(), [&](const MeasuredRun& r) { return r.id == id; }))
        throw ConfigError("isobar fit", "--train-ids", "there is no successful run " + id + " in " + a.dir,
                          "see `isobar report` for their ids");
    for (size_t i = 0; i < runs.size(); ++i) {
      const bool train = std::find(a.train_ids.begin(), a.train_ids.end(), runs[i].id) != a.train_ids.end();
      (train ? s.train : s.test).push_back(i);
    }
    return s;
  }
  const double fitted = a.fraction >= 0 ? a.fraction : a.holdout >= 0 ? 1 - a.holdout : 1;
  s = split_runs(runs, fitted, a.seed, a.by == "layout" ? Together::layout : Together::specification);
  if (s.train.empty())
    throw ConfigError("isobar fit", "--holdout", "leaves no run to fit to",
                      "hold out less, or run more trials");
  return s;
}

/// Names of runs by their ids (bench/sweep/naming.h).
std::map<std::string, std::string> names_of(const std::vector<MeasuredRun>& runs) {
  std::vector<Nameable> all;
  for (const MeasuredRun& r : runs) all.push_back({.spec = &r.spec});
  const Names n = name_by_difference(all);
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < runs.size(); ++i) out[runs[i].id] = n.names[i];
  return out;
}

void print_rows(const Holdout& h, const std::map<std::string, std::string>& names) {
  size_t width = 8;
  for (const HoldoutRow& r : h.rows) width = std::max(width, names.at(r.id).size());
  std::printf("  %-*s  %11s  %7s  %11s  %23s  %7s\n", static_cast<int>(width), "held out", "measured ms",
              "80 %", "predicted", "80 % interval", "error");
  std::vector<const HoldoutRow*> rows;
  for (const HoldoutRow& r : h.rows) rows.push_back(&r);
  std::sort(rows.begin(), rows.end(),
            [](const HoldoutRow* a, const HoldoutRow* b) { return a->measured.value < b->measured.value; });
  for (const HoldoutRow* r : rows)
    std::printf("  %-*s  %11.3f  +-%4.1f%%  %11.3f  %10.3f - %10.3f  %+6.1f%%  %s%s%s\n",
                static_cast<int>(width), names.at(r->id).c_str(), 1e3 * r->measured.value,
                100 * (r->measured.upper / r->measured.value - 1), 1e3 * r->predicted.value, 1e3 * r->predicted.lower,
                1e3 * r->predicted.upper, 100 * r->error(), r->id.c_str(), r->inside() ? "" : "  outside",
                r->contended ? "  contended" : "");
}

void print_text(const Machine& before, const Machine& m, const Holdout& fitted, const Holdout& held_out,
                const RunToRun& between, const std::map<std::string, std::string>& names) {
  std::printf(
      "Fitted to %zu runs. Step times, measured and predicted, are the %s; %s.\n"
      "Coefficients whose value or interval the runs changed:\n",
      m.fit->runs.size(), title_of(m.fit->statistic), words_of(between).c_str());
  std::printf("  %-24s %12s %12s %25s  %s\n", "coefficient", "before", "fitted", "80 % interval", "unit");
  for (size_t i = 0; i < kCoefs; ++i) {
    const Coefficient &a = before.coefficients[i], &b = m.coefficients[i];
    if (a.value == b.value && a.lower == b.lower) continue;
    std::printf("  %-24s %12.4g %12.4g %11.4g - %11.4g  %s\n", info_of(i).name, a.value, b.value, b.lower,
                b.upper, info_of(i).unit);
  }
  for (const std::string& n : m.fit->notes) std::printf("note: %s\n", n.c_str());
  std::printf("Residual scatter of log step times: %.1f %%; median error of the fitted runs: %.1f %%\n",
              100 * m.fit->spread.at("all"), 100 * fitted.median_error);
  if (held_out.rows.empty()) return;
  std::printf("\n");
  print_rows(held_out, names);
  std::printf(
      "Held out: %zu runs, median error %.1f %%, mean %.1f %%, 90th percentile %.1f %%, bias %+.1f %%,\n"
      "rank correlation %.2f, regret of the first choice %.1f %%; the 80 %% interval covers %.0f %% of "
      "them\n",
      held_out.rows.size(), 100 * held_out.median_error, 100 * held_out.mape, 100 * held_out.p90,
      100 * held_out.bias, held_out.rank_correlation, 100 * held_out.regret, 100 * held_out.coverage);
  if (held_out.settings > 0 && held_out.settings < held_out.rows.size())
    std::printf(
        "Median of repetitions for each of %zu settings: median error %.1f %%. One repetition differs from "
        "the median of the others by %.1f %% (median), a limit for any prediction of single runs\n",
        held_out.settings, 100 * held_out.settings_error, 100 * held_out.repeat_error);
}

struct Repeated {  // the held-out test over several random parts: one small part says little about an
                   // interval
  std::vector<double> median_errors, settings_errors;  // of the held-out runs; of their settings
  std::vector<double> regrets;                         // of all runs of the sweep
  size_t inside = 0, runs = 0;
  double coverage() const { return static_cast<double>(inside) / static_cast<double>(runs); }
};

Repeated repeat(FitArguments a, const std::vector<MeasuredRun>& runs, const Machine& before) {
  Repeated out;
  for (int64_t i = 0; i < a.splits; ++i, ++a.seed) {
    const HeldOut split = split_of(a, runs);
    const Machine m = fit(pick(runs, split.train), before, {.statistic = a.statistic});
    const Holdout h = hold_out(pick(runs, split.test), m);
    out.regrets.push_back(hold_out(runs, m).regret);
    out.median_errors.push_back(h.median_error);
    if (h.settings > 0 && h.settings < h.rows.size()) out.settings_errors.push_back(h.settings_error);
    for (const HoldoutRow& r : h.rows) out.inside += r.inside() ? 1 : 0;
    out.runs += h.rows.size();
  }
  std::sort(out.median_errors.begin(), out.median_errors.end());
  std::sort(out.settings_errors.begin(), out.settings_errors.end());
  std::sort(out.regrets.begin(), out.regrets.end());
  return out;
}

void run_fit(const FitArguments& a) {
  const Machine before = load_machine(a.machine);
  RunToRun between;
  const std::vector<MeasuredRun> runs = usable_runs(a.dir, a.statistic, a.json, &between);
  const HeldOut split = split_of(a, runs);
  const std::vector<MeasuredRun> train = pick(runs, split.train), test = pick(runs, split.test);
  const Machine m = fit(train, before, {.statistic = a.statistic});
  const Holdout fitted = hold_out(train, m), held_out = hold_out(test, m);
  const nlohmann::json j = holdout_json(m, fitted, held_out);
  save_machine(m, a.out);
  const std::filesystem::path holdout = std::filesystem::path(a.dir) / "holdout.json";
  if (!test.empty()) write_atomically(holdout, json_text(j, 1) + "\n");
  const MemoryFit memory = memory_of(runs, m);
  const Repeated repeated = a.splits > 1 && !test.empty() ? repeat(a, runs, before) : Repeated{};
  if (a.json) {
    nlohmann::json out = j;
    out["file"] = a.out;
    out["run_to_run"] = {{"sigma", between.sigma}, {"seen", between.df}};
    out["notes"] = m.fit->notes;
    out["memory"] = {{"arenas", memory.runs},  {"planned_to_the_byte", memory.same},
                     {"peaks", memory.peaks},  {"peak_median_error", memory.median_error},
                     {"peak_p90", memory.p90}, {"peak_bias", memory.bias}};
    if (repeated.runs > 0)
      out["splits"] = {{"median_errors", repeated.median_errors},
                       {"settings_median_errors", repeated.settings_errors},
                       {"coverage", repeated.coverage()},
                       {"regrets", repeated.regrets}};
    for (size_t i = 0; i < kCoefs; ++i) {
      const Coefficient& c = m.coefficients[i];
      out["coefficients"][info_of(i).name] = {
          {"value", c.value}, {"lower", c.lower}, {"upper", c.upper}, {"unit", info_of(i).unit}};
    }
    std::printf("%s\n", json_text(out, 1).c_str());
    return;
  }
  print_text(before, m, fitted, held_out, between, names_of(runs));
  std::fputs(text_of(memory).c_str(), stdout);
  if (repeated.runs > 0)
    std::printf(
        "Over %zu random parts: median error %.1f to %.1f %% (median %.1f %%), the 80 %% interval covers "
        "%.0f %%; regret of the first choice among all runs: median %.1f %%, worst %.1f %%\n",
        repeated.median_errors.size(), 100 * repeated.median_errors.front(),
        100 * repeated.median_errors.back(), 100 * repeated.median_errors[repeated.median_errors.size() / 2],
        100 * repeated.coverage(), 100 * repeated.regrets[repeated.regrets.size() / 2],
        100 * repeated.regrets.back());
  if (!repeated.settings_errors.empty())
    std::printf("By setting, with the median of its repetitions: %.1f to %.1f %% (median %.1f %%)\n",
                100 * repeated.settings_errors.front(), 100 * repeated.settings_errors.back(),
                100 * repeated.settings_errors[repeated.settings_errors.size() / 2]);
  std::printf("Machine: %s%s\n", a.out.c_str(),
              test.empty() ? "" : ("; held-out runs: " + holdout.string()).c_str());
}

}  // namespace

void add_fit_command(CLI::App& app) {
  auto a = std::make_shared<FitArguments>();
  CLI::App* fit = app.add_subcommand("fit", "Fit a machine's coefficients to measured runs, with intervals");
  fit->footer(kFitHelp);
  fit->add_option("DIR", a->files, "Results of a sweep; with --engine a table of runs (CSV), or their logs")
      ->required();
  add_machine_option(*fit, a->machine, "Machine file to start from (isobar calibrate)")->required();
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
    const bool foreign = !a->engine.empty();
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
    if (foreign) return fit_own_runs({a->files, a->config, a->machine, a->engine, a->out, a->tuned, a->json});
    if (a->files.size() > 1)
      throw ConfigError(a->files[1], "", "comes behind the results of a sweep",
                        "fit one directory at a time");
    run_fit(*a);
  });
}

}  // namespace isobar
