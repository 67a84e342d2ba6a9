// Finished runs, read back from their directories: what the fit and the reports work on.
//
//   std::vector<std::string> problems;
//   for (const RunRecord& r : load_runs("results/demo", &problems))
//     if (r.run_class == RunClass::ok) use(r.spec, r.step_s.of(kStatistic), r.ops);
//
// `dir` is a sweep's results directory, one run directory, or a folder of run directories. JSON lines are the
// truth: a torn last line is ignored, anything else that cannot be read becomes a problem, never a failure.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sweep/classify.h"
#include "bench/sweep/contention.h"
#include "model/base/measurement.h"
#include "model/base/spec.h"
#include "model/records/records.h"

namespace isobar {

struct RunRecord {
  std::string id;  // of the trial; the directory's name for a run outside a sweep
  int64_t repetition = 0;
  std::string repeats;  // id of the contended trial that it runs once more; "": a trial of its own
  int64_t attempt = 0;  // 1 for a trial that ran once; 0 outside a sweep
  std::filesystem::path dir;
  nlohmann::json axes = nlohmann::json::object();  // what the sweep varied

  RunClass run_class = RunClass::interrupted;
  bool complete = false;  // has a final class
  std::string message;
  double wall_s = 0;
  std::string time_utc;  // of run_start

  RunSpec spec;
  int64_t ranks = 0, ranks_on_host = 0, threads = 0;  // ranks that share rank 0's host; threads per rank
  bool on_gpu = false;                                // its log says that a GPU computed
  std::string plan_hash;
  int64_t parameters = 0;
  double flops_forward_per_sample = 0;

  int64_t warmup = 2;  // steps that step_s leaves out
  StepStats step_s;
  Contention contention;   // known where siblings were loaded with it (load_runs)
  double data_wait_s = 0;  // mean per step, warm-up left out
  double final_loss = std::numeric_limits<double>::quiet_NaN();
  double unattributed_share = 0;

  /// Samples a second of its step time; 0: it has none.
  double rate(Statistic s) const {
    return step_s.of(s) > 0 ? static_cast<double>(spec.train.global_batch) / step_s.of(s) : 0;
  }
  /// NaN: not metered
  double joules_per_sample() const {
    return or_nan(ranks_told.joules_per_step) / static_cast<double>(spec.train.global_batch);
  }
  double core_trip_ns() const;                 // of the host whose cores are farthest apart; 0: not measured
  std::vector<double> measured_steps() const;  // seconds, in order, warm-up left out

  int64_t arena_bytes = 0;  // per rank, as planned
  std::map<std::string, int64_t> memory_by_category;
  int64_t peak_rss_bytes = 0;

  std::vector<OpRecord> ops;
  std::vector<StepRecord> steps;
  std::vector<ValidRecord> valid;
  RanksRecord ranks_told;                     // the last; of no ranks: it tells none
  std::vector<CheckpointRecord> checkpoints;  // those that were written
  nlohmann::json provenance = nlohmann::json::object();
};

/// All runs of a directory, contended ones marked (contention.h).
std::vector<RunRecord> load_runs(const std::filesystem::path& dir,
                                 std::vector<std::string>* problems = nullptr);
RunRecord load_run(const std::filesystem::path& dir, std::vector<std::string>* problems = nullptr);

/// Its specification with run.device as it was: `auto` is what the run found.
RunSpec spec_as_run(const RunRecord& r);

/// What makes two runs repetitions of one experiment: all of its specification but the seed and where files
/// lie.
std::string experiment_of(const RunSpec& spec);
/// Log sigma of its step time by its own steps (model/base/measurement.h); 0: not known.
double step_error(const RunRecord& r, Statistic statistic);
/// How far repetitions of one specification differ whose cores lay equally far apart, over all
/// specifications; runs whose steps scatter do not count.
RunToRun run_to_run_of(const std::vector<const RunRecord*>& runs, Statistic statistic);

/// The last events of a result file; an absent file gives the empty tail.
ResultTail read_tail(const std::filesystem::path& result_jsonl);

}  // namespace isobar
