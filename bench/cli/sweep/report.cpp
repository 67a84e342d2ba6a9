// isobar report: the command line of reports/.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "reports/report.h"
#include "reports/tables/report_tables.h"
#include "reports/tables/run_rows.h"

namespace isobar::cli {
namespace {

constexpr const char* kReportHelp =
    R"(Shows measured beside predicted: tables here, figures and more tables in OUT/index.html,
one page that works without a network and prints well.

DIR is a sweep's results, one run's directory or a folder of runs. Further ones are compared with the first,
specification by specification, with intervals and tests. Predictions come from --machine (a file of
`isobar fit` or `isobar calibrate`), else from DIR/holdout.json, which `isobar fit` may have left there.

  OUT/index.html            the page; hover over a mark to read its run
  OUT/tables/*.csv          every table; runs.csv, runs.jsonl: every setting and statistic of every run
  OUT/figures/*.svg         every figure; *.vl.json is its Vega-Lite specification, to change and draw again
  OUT/perfetto.json         with --perfetto: a traced step and its prediction, track by track
  OUT/benchmark.json        step times as Google Benchmark writes them, for its compare.py

Examples:
  isobar report results/demo --machine results/demo-fitted.yaml -o reports/out
  isobar report results/before results/after -o reports/change     # what changed, and whether it is noise
  isobar report runs/first --machine fitted.yaml -o reports/out --perfetto   # a run that has trace.json
  isobar report runs/era5 -o reports/era5 --pdf
  isobar report results/demo --runs > runs.csv                     # that table alone)";

struct ReportArguments {
  std::vector<std::string> dirs;
  std::string out, machine, python;
  Statistic statistic = kStatistic;
  bool json = false, png = false, pdf = false, no_figures = false, tensorboard = false, mlperf = false,
       perfetto = false, runs = false;
};

void print_json(const report::Report& r) {
  nlohmann::json j = {{"page", r.page.string()},     {"drawn", r.drawn},
                      {"figures", r.figure_ids},     {"tables", nlohmann::json::object()},
                      {"problems", r.data.problems}, {"runs", nlohmann::json::array()}};
  for (const auto& row : r.rows) j["runs"].push_back(nlohmann::json(row));
  if (!r.perfetto.empty()) j["perfetto"] = r.perfetto.string();
  if (!r.drawn) j["not_drawn"] = r.not_drawn;
  for (const report::Table& t : r.tables) j["tables"][t.id] = report::to_json(t);
  std::fputs((j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(), stdout);
}

void print_text(const report::Report& r, bool figures_wanted) {
  for (const report::Table& t : r.tables) {
    if (t.id != "runs" && t.id != "score" && t.id != "ops" && t.id != "failed" && t.id != "training" &&
        !t.id.starts_with("comparison"))
      continue;
    report::Table shown = t;
    constexpr size_t kRows = 40;
    if (shown.rows.size() > kRows) {
      shown.rows.resize(kRows);
      shown.note = std::to_string(t.rows.size() - kRows) + " more rows in tables/" + t.id + ".csv";
    }
    std::fputs((report::to_text(shown) + "\n").c_str(), stdout);
  }
  for (const std::string& p : r.data.problems)
    std::fprintf(stderr, "warning: %s\n", report::printable(p).c_str());
  if (figures_wanted && !r.drawn)
    std::fprintf(stderr, "warning: figures are not drawn: %s\n", r.not_drawn.c_str());
  std::printf("Report: %s\n", r.page.c_str());
  if (!r.perfetto.empty()) std::printf("Perfetto: %s (`isobar open` shows it)\n", r.perfetto.c_str());
}

/// Prints tables/runs.csv of the report that these options would write.
void print_runs(const ReportArguments& a, const std::optional<Statistic>& statistic) {
  const report::ReportData d =
      report::collect({a.dirs.begin(), a.dirs.end()},
                      {.machine = a.machine, .workspace = cpu_workspace, .statistic = statistic});
  for (const std::string& p : d.problems) std::fprintf(stderr, "warning: %s\n", report::printable(p).c_str());
  std::fputs(report::csv_of(report::run_rows(d)).c_str(), stdout);
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto a = std::make_shared<ReportArguments>();
  CLI::App* report =
      app.add_subcommand("report", "Write an HTML page and tables: measured and predicted, by run and by op");
  report->footer(kReportHelp);
  report->add_option("DIR", a->dirs, "Results of a sweep, or of one run; several are compared")->required();
  report->add_option("-o,--out", a->out, "Directory of the report; made when it is missing");
  add_machine_option(*report, a->machine, "Machine file to predict with");
  report->add_option("--python", a->python, "Python that has vl-convert-python");
  CLI::Option* statistic =
      add_statistic_option(*report, a->statistic, " (else what the machine was fitted to)");
  report->add_flag("--png", a->png, "Write figures as PNG too");
  report->add_flag("--pdf", a->pdf, "Write figures as PDF too");
  report->add_flag("--tensorboard", a->tensorboard,
                   "Write event files for TensorBoard too (OUT/tensorboard)");
  report->add_flag("--mlperf", a->mlperf, "Write MLPerf's log lines too (OUT/mlperf)");
  report->add_flag("--perfetto", a->perfetto,
                   "Write one step of the fastest traced run, measured and predicted side by side, for "
                   "ui.perfetto.dev (OUT/perfetto.json)");
  auto* none = report->add_flag("--no-figures", a->no_figures, "Draw nothing");
  for (const char* option : {"--python", "--png", "--pdf"}) none->excludes(report->get_option(option));
  report->add_flag("--json", a->json, "Print JSON on stdout instead of tables");
  CLI::Option* runs = report->add_flag(
      "--runs", a->runs, "Print tables/runs.csv on stdout and write nothing (--machine, --statistic)");
  for (const char* option : {"--out", "--python", "--png", "--pdf", "--tensorboard", "--mlperf", "--perfetto",
                             "--no-figures", "--json"})
    runs->excludes(report->get_option(option));
  report->callback([a, statistic] {
    const std::optional<Statistic> chosen = *statistic ? std::optional(a->statistic) : std::nullopt;
    if (a->runs) return print_runs(*a, chosen);
    if (a->out.empty())
      throw ConfigError("isobar report", "--out", "is missing", "say where the report goes: -o reports/out");
    const report::Report r = report::write_report({a->dirs.begin(), a->dirs.end()}, a->out,
                                                  {.machine = a->machine,
                                                   .python = a->python,
                                                   .statistic = chosen,
                                                   .png = a->png,
                                                   .pdf = a->pdf,
                                                   .perfetto = a->perfetto,
                                                   .draw = !a->no_figures,
                                                   .workspace = cpu_workspace});
    const std::filesystem::path out = a->out;
    write_atomically(
        out / "benchmark.json",
        report::benchmark_json(r.data).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    if (a->tensorboard) report::write_tensorboard(r.data, out / "tensorboard");
    if (a->mlperf) report::write_mlperf(r.data, out / "mlperf");
    if (a->json)
      print_json(r);
    else
      print_text(r, !a->no_figures);
    // A missing Python was reported above; any other reason that kept render.py from drawing is a failure.
    if (!r.drawn && r.not_drawn.starts_with("render.py failed")) throw ExitCode{1};
  });
}

}  // namespace isobar::cli
