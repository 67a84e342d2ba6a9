// `isobar report`: turns a results directory into a page, tables and figures.
//
//   Report r = write_report({"results/demo"}, "reports/out", {.machine = "fitted.yaml"});
//   OUT/index.html, OUT/tables/*.csv, OUT/figures/*.{vl.json,svg}
#pragma once
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/data.h"
#include "reports/tables/tables.h"

namespace isobar::report {

struct ReportOptions {
  std::filesystem::path machine;  // predict with it; "": holdout.json of the results directory, if there
  std::filesystem::path python;   // with vl-convert; "": drawing_python()
  std::optional<Statistic> statistic = std::nullopt;           // of steps; unset: what the predictions are of
  bool png = false, pdf = false;                               // figures in these formats besides SVG
  bool perfetto = false;                                       // OUT/perfetto.json (side_by_side.h)
  bool draw = true;                                            // false: tables and specifications only
  std::function<plan::Workspace(int threads)> workspace = {};  // see CollectOptions
};

struct Report {
  ReportData data;
  std::vector<Table> tables;
  nlohmann::ordered_json rows;  // run_rows.h
  std::vector<std::string> figure_ids;
  std::filesystem::path page;
  bool drawn = false;
  std::string not_drawn;           // why, and how to fix it
  std::filesystem::path perfetto;  // "": not asked for
};

/// Throws ConfigError for a directory without runs and for a broken machine file or holdout.json; without
/// Python the report has no drawn figures.
Report write_report(const std::vector<std::filesystem::path>& dirs, const std::filesystem::path& out,
                    const ReportOptions& options);

/// Draws OUT/figures/*.vl.json into OUT/index.html; returns "", or why it could not and how to fix it.
/// `stills`: as pictures, else only by the reader's browser.
std::string draw_figures(const std::filesystem::path& out, const ReportOptions& options, bool stills);
/// The JavaScript that draws figures in a browser (Vega); "" if unavailable, with reason and fix in
/// `missing`, or it is no longer wanted.
std::string vega_bundle(const std::filesystem::path& python, std::string* missing,
                        const std::atomic<bool>* unwanted = nullptr);
/// A JavaScript file that comes with the program (reports/). Throws ConfigError where it is not beside it.
std::string script_of_page(const std::string& name);
/// Removes files of an earlier page that this one does not write again, so that they cannot pass for its own.
void clear_old(const std::filesystem::path& out);

// Results in formats that other tools read: TensorBoard, Google Benchmark's compare.py, MLPerf's log readers.

/// One folder with an event file for each run that has steps, named by its label: the curves that a live run
/// writes (model/records/curves.h) and its hyperparameters. Returns the number of runs.
size_t write_tensorboard(const ReportData& d, const std::filesystem::path& folder);
/// Step times in Google Benchmark's format: an entry a run; runs of one specification are its repetitions.
nlohmann::json benchmark_json(const ReportData& d);
/// MLPerf's ":::MLLOG" lines (mlperf_logging's keys), a file for each run that finished.
size_t write_mlperf(const ReportData& d, const std::filesystem::path& folder);

}  // namespace isobar::report
