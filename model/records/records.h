// Lines of result.jsonl as plain structs, the only definition of the format. Writers fill a record, readers
// get one back (result_file.h); README.md describes the schema.
//
//   append_line(dir / "result.jsonl", line_of(CheckpointRecord{.step = 100, .path = "…", .seconds = 0.5}));
//   const Record r = record_from_json(json, {.file = "run/result.jsonl", .line = 7});
//   if (const auto* step = std::get_if<StepRecord>(&r)) use(step->seconds);
//
// An optional member is a key that not every writer has: imported runs have no losses, older files lack newer
// keys. Other members are in every current file and keep their default if an old file lacks them. Numbers
// that are not finite are null in the file, and null reads as absent. Unknown keys are ignored.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/base/step_stats.h"

namespace isobar::records {

/// The value, or NaN if the run wrote none.
inline double or_nan(const std::optional<double>& x) {
  return x.value_or(std::numeric_limits<double>::quiet_NaN());
}

struct MemoryRecord {  // planned bytes of one rank
  int64_t arena = 0, host = 0, total = 0;
  std::map<std::string, int64_t> by_category;
};

struct StartRecord {
  static constexpr const char* kEvent = "run_start";
  int64_t schema = 1;
  std::string time_utc;  // 2026-01-31T12:00:00Z
  std::optional<bool> resumed;
  nlohmann::json spec = nlohmann::json::object();     // run_spec_from_json() reads it
  int64_t ranks = 0, ranks_on_host = 0, threads = 0;  // ranks on rank 0's host; threads per rank
  std::optional<std::string> plan_hash;
  std::optional<int64_t> parameters;
  std::optional<double> flops_forward_per_sample;
  std::optional<MemoryRecord> memory;
  // By op kind and type ("gemm bf16"): number of rank 0's ops by kernel, on CPUs. A GPU's kernels are in the
  // device record.
  std::optional<nlohmann::json> kernels;
  nlohmann::json provenance = nlohmann::json::object();  // commit, host, versions: for display
};

struct DeviceRecord {  // written if a GPU computes
  static constexpr const char* kEvent = "device";
  nlohmann::json gpu = nlohmann::json::object();  // for display
};

struct SetUpRecord {  // before the first step
  static constexpr const char* kEvent = "set_up";
  std::map<std::string, double> seconds;             // by stage: "planning", "first values"
  std::optional<std::vector<std::string>> channels;  // what is predicted, in the order of the errors
};

struct ResumeRecord {
  static constexpr const char* kEvent = "resume";
  int64_t step = 0;
  std::string path;                                   // checkpoint's path
  nlohmann::json changed = nlohmann::json::object();  // key -> [before, now]
  bool checked = false;                               // false: an old checkpoint without digests
};

struct StepRecord {
  static constexpr const char* kEvent = "step";
  int64_t step = 0;
  double seconds = 0, samples_per_s = 0;
  std::optional<int64_t> epoch;
  std::optional<double> loss, lr, grad_norm;
  std::optional<double> rmse, mae;  // of the first channel; rmse for fields, mae for scalars
  std::optional<double> accuracy;   // for classes: share of samples
  std::optional<double> imbalance;  // of experts: the largest one's share of a sample's tokens over the mean
  std::optional<double> dropped;    // share of tokens' copies beyond the experts' capacity
  std::optional<double> data_wait_s;
  std::optional<int64_t> rss_bytes;
  std::optional<double> loss_scale;  // fp16 only
  std::optional<bool> skipped;
};

struct EpochRecord {  // in runs that count epochs
  static constexpr const char* kEvent = "epoch";
  int64_t epoch = 0, step = 0;  // from 1; the step after which it ended
  int64_t steps = 0;            // in this run: fewer than the epoch's where it was resumed or ended within
  double seconds = 0;           // of these steps with their reading, without validations and checkpoints
  double samples_per_s = 0;
  std::optional<double> loss;                       // mean of the steps
  std::optional<double> valid_loss, valid_seconds;  // of the validation after its last step
};

struct JacobianRecord {  // d(output)/d(input) over validation samples, normalised on both sides
  int64_t samples = 0;
  double frobenius = 0;             // norm, mean over samples
  std::optional<double> condition;  // largest / smallest singular value, mean; unset if one is 0
  double mean = 0, max = 0;         // of the absolute elements
  double std = 0;                   // of the elements
  std::vector<double> sensitivity;  // mean absolute value by input
};

struct ValidRecord {
  static constexpr const char* kEvent = "valid";
  int64_t step = 0;
  std::optional<double> loss;
  double seconds = 0;
  // Per channel: fields; persistence, if each target is an input; scalars
  std::vector<double> rmse, persistence_rmse, mae;
  std::optional<JacobianRecord> jacobian;
  // For classes: the net's accuracy, and that of always predicting the most frequent class
  std::optional<double> accuracy, baseline_accuracy;
  std::optional<double> perplexity;  // for words: exp(loss)
};

struct RankRecord {  // one rank; seconds are means of a step
  int64_t rank = 0;
  std::string host;
  double step_s = 0;
  std::optional<double> compute_s;  // in ops of the compute lane; unset: the device does not time ops
  double data_wait_s = 0;
  int64_t rss_bytes = 0, peak_rss_bytes = 0;  // of its process
  std::optional<double> mhz;                  // clock of its cores or GPU after the last of these steps
  std::optional<double> watts;                // of its GPU; a host's first rank reports the host's power
  std::optional<double> used_cores;           // that its process kept busy, on average
  // Cores that it may run on, and how many of them were busy with anything; from the first of the ranks that
  // share them.
  std::optional<double> cores, busy_cores;
  // Readings of its GPU during these steps: share of time in which a kernel ran, highest temperature
  std::optional<double> busy, celsius, pcie_in_bytes_s, pcie_out_bytes_s;
  /// Time waiting for other ranks and in the executor
  std::optional<double> other_s() const {
    return compute_s ? std::optional(step_s - *compute_s - data_wait_s) : std::nullopt;
  }
};

struct RanksRecord {  // averages over the steps so far, without warm-up
  static constexpr const char* kEvent = "ranks";
  int64_t step = 0, steps = 0;  // last step; number of steps
  std::vector<RankRecord> ranks;
  std::optional<double> joules_per_step;  // over all hosts' processors and memory, or all GPUs
  std::optional<std::string> energy;      // its sources: "package-0, dram of package-0"; or why unknown
  /// Share of the ranks' cores that other programs, or a hypervisor's other guests, had
  std::optional<double> taken() const;
  /// "compute 12.3 (rank 1) to 14.5 ms (rank 0) of a step of 16.0 ms; 35.1 J a step, 180 W (package-0)"
  std::string text() const;
};

struct CheckpointRecord {
  static constexpr const char* kEvent = "checkpoint";
  int64_t step = 0;
  std::string path;
  double seconds = 0;
};

struct DeviceShareRecord {  // share of a device's time that a trace attributes to ops
  static constexpr const char* kEvent = "device_share";
  double joined_share = 0, device_s = 0;
  int64_t activities = 0, lost = 0;
  std::string text;  // the same for display
};

struct PartRecord {        // a part of the net
  std::string kind, path;  // block, block07
};

struct OpRecord {
  std::string path, kind, lane;
  int64_t count = 0;   // executions in the run
  double seconds = 0;  // total
  double flops = 0, bytes = 0;
  std::optional<PartRecord> part;  // unset: in no part, or not recorded
  /// block*/attn/qkv: one path for the ops of all parts of a kind.
  std::string path_in_kind() const;
};

struct RoutineRecord {
  std::string name;
  int64_t chunk = 0, count = 0;
  double seconds = 0;
};

struct LastValid {  // of the first channel
  int64_t step = 0;
  double loss = 0;
  std::optional<double> rmse, persistence_rmse, mae, accuracy, baseline_accuracy, perplexity;
};

struct EndRecord {
  static constexpr const char* kEvent = "run_end";
  std::string status;  // ok | failed
  // if failed
  std::optional<std::string> failure, message;  // its class (`class` in the file) and why
  std::optional<std::string> op, signal;        // the hanging op; the signal that stopped it
  std::optional<int64_t> rank;                  // the rank that reports it
  // if completed
  std::optional<int64_t> steps, trained_steps;
  std::optional<std::string> stopped;  // why it stopped before train.steps
  std::optional<double> seconds;
  std::optional<StepStats> step_s;
  std::optional<double> samples_per_s, final_loss;
  std::optional<LastValid> valid;
  std::optional<std::string> checkpoint;  // the last one
  std::optional<int64_t> peak_rss_bytes, file_rss_bytes;
  std::optional<double> unattributed_share;
  std::optional<std::vector<OpRecord>> ops;
  std::optional<std::vector<RoutineRecord>> routines;
  // of a program that run.command started
  std::optional<std::vector<std::string>> notes;  // what was assumed, and left out as warm-up

  bool ok() const { return status == "ok"; }
};

struct UnknownRecord {  // written by a later version, for example
  std::string event;
};

using Record =
    std::variant<UnknownRecord, StartRecord, DeviceRecord, SetUpRecord, ResumeRecord, StepRecord, EpochRecord,
                 ValidRecord, RanksRecord, CheckpointRecord, DeviceShareRecord, EndRecord>;

/// "step", "run_end", …
std::string event_of(const Record& r);
nlohmann::json to_json(const Record& r);
nlohmann::json to_json(const MemoryRecord& m);

/// Place of a record in a file, and where its errors go.
struct Place {
  std::string file;
  int64_t line = 0;
  std::vector<std::string>* problems = nullptr;  // null: the first error is thrown (ConfigError)
};
/// A key of the wrong type is an error that names file, line and key; if `problems` is set, the key then
/// reads as absent. An object without `event` becomes an UnknownRecord "".
Record record_from_json(const nlohmann::json& j, const Place& place);

}  // namespace isobar::records
