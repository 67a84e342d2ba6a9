// Finished runs read back from their directories, for the fit and the reports.
//
//   std::vector<std::string> problems;
//   for (const RunRecord& r : load_runs("results/demo", &problems))
//     if (r.run_class == RunClass::ok) use(r.spec, r.step_s.of(kStatistic), r.ops);
//
// `dir` is a sweep's results directory, one run directory, or a folder of run directories. The JSON lines are
// authoritative: an incomplete last line is ignored, other unreadable content is reported in `problems` and
// never throws.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/measurement.h"
#include "model/base/spec/spec.h"
#include "model/records/contention.h"
#include "model/records/records.h"
#include "model/records/run_class.h"

namespace isobar::records {

struct RunRecord {
  std::string id;  // trial id; outside a sweep the directory's name
  int64_t repetition = 0;
  std::string repeats;  // id of the contended trial that it repeats; "": not a repeat
  int64_t attempt = 0;  // 1: first start; 0: outside a sweep
  std::filesystem::path dir;
  nlohmann::json axes = nlohmann::json::object();  // settings that the sweep varied

  RunClass run_class = RunClass::interrupted;
  bool complete = false;  // has a final class
  std::string message;
  double wall_s = 0;
  std::string time_utc;  // of run_start

  RunSpec spec;
  int64_t ranks = 0, ranks_on_host = 0, threads = 0;  // ranks on rank 0's host; threads per rank
  bool on_gpu = false;                                // computed by a GPU, by its log
  int64_t process_bytes = 0;                          // on the GPU: CUDA's context and libraries; 0: unknown
  std::string plan_hash;
  int64_t parameters = 0;
  double flops_forward_per_sample = 0;

  int64_t warmup = 2;  // steps excluded from step_s
  StepStats step_s;
  Contention contention;   // set when siblings are loaded too (load_runs)
  double data_wait_s = 0;  // mean per step without warm-up
  double final_loss = std::numeric_limits<double>::quiet_NaN();
  double unattributed_share = 0;

  /// Samples a second by its step time; 0: not timed.
  double rate(Statistic s) const {
    return step_s.of(s) > 0 ? static_cast<double>(spec.train.global_batch) / step_s.of(s) : 0;
  }
  /// NaN: no energy meter
  double joules_per_sample() const {
    return or_nan(ranks_record.joules_per_step) / static_cast<double>(spec.train.global_batch);
  }
  std::vector<double> measured_steps() const;  // seconds, in order, without warm-up

  int64_t arena_bytes = 0;  // per rank, as planned
  std::map<std::string, int64_t> memory_by_category;
  int64_t peak_rss_bytes = 0;

  std::vector<OpRecord> ops;
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::vector<ValidRecord> valid;
  SetUpRecord set_up;
  RanksRecord ranks_record;                   // the last one; empty `ranks`: none recorded
  std::vector<CheckpointRecord> checkpoints;  // those that were written
  nlohmann::json provenance = nlohmann::json::object();
  std::vector<std::string> advice;  // on its speed, by these records (advice.h)
};

/// All runs of a directory, with contended ones marked (contention.h).
std::vector<RunRecord> load_runs(const std::filesystem::path& dir,
                                 std::vector<std::string>* problems = nullptr);
RunRecord load_run(const std::filesystem::path& dir, std::vector<std::string>* problems = nullptr);

/// The specification with run.device resolved: `auto` becomes the device that computed.
RunSpec spec_as_run(const RunRecord& r);

/// Identity of an experiment, shared by its repetitions: the specification without seed and file paths.
std::string experiment_of(const RunSpec& spec);
/// Log sigma of its step time from its own steps (model/base/measurement.h); 0: not known.
double step_error(const RunRecord& r, Statistic statistic);
/// Variation between repetitions, pooled over specifications. Only runs with equal core distance are
/// compared, and scattered runs are excluded.
RunToRun run_to_run_of(const std::vector<const RunRecord*>& runs, Statistic statistic);

/// The last events of a result file; empty if there is no file.
ResultTail read_tail(const std::filesystem::path& result_jsonl);

}  // namespace isobar::records
