// All data of a report, collected before anything is drawn: measured runs, their predictions, and names that
// distinguish the runs.
//
//   ReportData d = collect({"results/demo"}, {.machine = "fitted.yaml"});
//   for (const ReportRun* r : d.ok()) ... r->label, r->measured(), r->prediction->step_s
//
// Several directories are several sets of results to compare; `set` is then the first axis.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/records/results.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/machine/machine.h"

namespace isobar::report {

struct RunPrediction {
  double step_s = 0, lower = 0, upper = 0;              // seconds of a step, 80 % interval
  bool in_fit = false;                                  // the coefficients were fitted to this run
  std::vector<std::pair<std::string, double>> terms;    // seconds of a step; may be empty
  std::vector<std::pair<std::string, int64_t>> memory;  // bytes of one rank by category; may be empty
  int64_t memory_total = 0;                             // resident bytes of a rank; 0: not predicted
  std::map<std::string, double> op_s;                   // seconds of one execution, by path; may be empty
  std::vector<std::string> warnings;
};

struct ReportRun {
  records::RunRecord run;
  std::string set;                          // name of its results directory
  std::string layout;                       // "dp2 tp1", "1 rank"
  std::string name;                         // the settings that distinguish it: "dp2 tp1 bf16 mb4"
  std::string label;                        // name with set and repetition: unique
  std::map<std::string, std::string> axes;  // key -> value of every setting that varies among the runs
  std::optional<RunPrediction> prediction;

  Statistic statistic = kStatistic;  // of step times, the same for all runs of a report
  double measured_error = 0;         // log sigma of `measured`: noise of its steps and between runs

  double measured() const { return run.step_s.of(statistic); }
  double rate() const { return run.rate(statistic); }
  double measured_lower() const { return measured() * std::exp(-kNormal80 * measured_error); }  // 80 %
  double measured_upper() const { return measured() * std::exp(kNormal80 * measured_error); }
  double error() const { return prediction->step_s / measured() - 1; }  // relative to measured
  bool inside() const { return prediction->lower <= measured() && measured() <= prediction->upper; }
};

struct Score {  // of predictions over some runs
  size_t runs = 0;
  double median_error = 0, mean_error = 0;  // of |error|, shares
  double bias = 0;                          // mean error
  double coverage = 0;                      // share of runs inside their interval
};

struct Facet {  // a setting that readers can filter by
  std::string key, title;
  std::vector<std::string> values;  // in order
};

struct ReportData {
  std::vector<std::filesystem::path> dirs;
  std::vector<std::string> sets;    // their names, all different
  std::vector<ReportRun> runs;      // by set, in order of id
  std::vector<std::string> varied;  // keys that distinguish the runs
  std::vector<Facet> facets;
  std::optional<perf::Machine> predictor;  // the machine file that predicted, if one did
  std::string machine;                     // its name; "": no predictions
  std::filesystem::path machine_file;      // that it was read from; "": from holdout.json
  Statistic statistic = kStatistic;        // of step times: applies to every step time and rate in the report
  RunToRun between;                        // variation between repetitions of one run
  std::vector<std::string> problems;       // what could not be read or predicted

  std::vector<const ReportRun*> ok() const;      // finished, with a step time
  std::vector<const ReportRun*> failed() const;  // all others
  std::vector<const ReportRun*> predicted() const;
  std::vector<const ReportRun*> contended() const;  // of those ok
  const ReportRun* best() const;                    // most samples/s; nullptr: none
  Score score(bool in_fit) const;
};

struct CollectOptions {
  std::filesystem::path machine;  // predict with this file; "": read holdout.json of the directory
  std::function<plan::Workspace(int threads)> workspace = {};  // backend workspace, for predicted memory
  bool holdout = true;                                         // whether holdout.json is read
  std::optional<Statistic> statistic = std::nullopt;  // unset: that of the predictions, else kStatistic
};

/// Throws ConfigError if a directory holds no run, or if predictions use different statistics or another one
/// than requested.
ReportData collect(const std::vector<std::filesystem::path>& dirs, const CollectOptions& options);

/// A holdout.json of `isobar fit`: predictions by run id. Throws ConfigError naming file and key.
struct HoldoutFile {
  std::string machine;
  Statistic statistic = kStatistic;  // of step times: what was fitted and is predicted
  std::map<std::string, RunPrediction> predictions;
};
HoldoutFile read_holdout(const std::filesystem::path& file);

/// Names runs by the settings that vary among them, and finds the facets.
void name_runs(ReportData& data);
std::string facet_value(const ReportRun& r, const std::string& key);

/// Predicts step time, terms and memory of every ok run, and op times of the run whose ops are shown.
void predict_runs(ReportData& data, const CollectOptions& options);
/// Options of predict() that reproduce how the run was made.
perf::PredictOptions options_of(const ReportRun& r);
/// The run whose ops are shown: the fastest that recorded ops; nullptr: none did.
const ReportRun* ops_run(const ReportData& d);

}  // namespace isobar::report
