// What a line of result.jsonl says, as plain structs: the one description of the format. Whoever writes a
// line fills one of these in, whoever reads a line gets one back (result_file.h); README.md is the schema in
// words.
//
//   append_line(dir / "result.jsonl", line_of(CheckpointRecord{.step = 100, .path = "…", .seconds = 0.5}));
//   const Record r = record_from_json(json, {.file = "run/result.jsonl", .line = 7});
//   if (const auto* step = std::get_if<StepRecord>(&r)) use(step->seconds);
//
// A member that is optional is a key that not every writer says: an imported run has times and no losses, an
// older file lacks what came later. Members that are not are in every file; where an old one lacks them they
// read as they stand here. A number that is none (NaN, infinite) is null in the file, and null reads like an
// absent key. Keys that nobody knows are ignored.
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

namespace isobar {

/// A number to compute with: NaN where the run wrote none.
inline double or_nan(const std::optional<double>& x) {
  return x.value_or(std::numeric_limits<double>::quiet_NaN());
}

struct MemoryRecord {  // bytes of one rank, as planned
  int64_t arena = 0, host = 0, total = 0;
  std::map<std::string, int64_t> by_category;
};

struct StartRecord {
  static constexpr const char* kEvent = "run_start";
  int64_t schema = 1;
  std::string time_utc;  // 2026-01-31T12:00:00Z
  std::optional<bool> resumed;
  nlohmann::json spec = nlohmann::json::object();     // of the run: run_spec_from_json()
  int64_t ranks = 0, ranks_on_host = 0, threads = 0;  // that share rank 0's host; threads per rank
  std::optional<std::string> plan_hash;
  std::optional<int64_t> parameters;
  std::optional<double> flops_forward_per_sample;
  std::optional<MemoryRecord> memory;
  // By kind and type of op ("gemm bf16"): how many ops of rank 0 run by which kernel. Of CPUs: a GPU's are in
  // the record of the device.
  std::optional<nlohmann::json> kernels;
  nlohmann::json provenance = nlohmann::json::object();  // commit, host, versions: shown, not computed with
};

struct DeviceRecord {  // a GPU computes
  static constexpr const char* kEvent = "device";
  nlohmann::json gpu = nlohmann::json::object();  // shown, not computed with
};

struct ResumeRecord {
  static constexpr const char* kEvent = "resume";
  int64_t step = 0;
  std::string path;                                   // of the checkpoint
  nlohmann::json changed = nlohmann::json::object();  // key -> [before, now]
  bool checked = false;                               // false: an old checkpoint without digests
};

struct StepRecord {
  static constexpr const char* kEvent = "step";
  int64_t step = 0;
  double seconds = 0, samples_per_s = 0;
  std::optional<int64_t> epoch;
  std::optional<double> loss, lr, grad_norm;
  std::optional<double> rmse, mae;  // of the first channel: fields have an RMSE each, single numbers an error
  std::optional<double> accuracy;   // of classes: share of samples
  std::optional<double> data_wait_s;
  std::optional<int64_t> rss_bytes;
  std::optional<double> loss_scale;  // fp16 only, as whether the step was skipped
  std::optional<bool> skipped;
};

struct JacobianRecord {  // d(output)/d(input) over validation samples, normalised on both sides
  int64_t samples = 0;
  double frobenius = 0;             // norm, mean over the samples
  std::optional<double> condition;  // largest over smallest singular value, the same; none where one is 0
  double mean = 0, max = 0;         // of its elements' absolute values
  double std = 0;                   // of its elements
  std::vector<double> sensitivity;  // by input: mean absolute value
};

struct ValidRecord {
  static constexpr const char* kEvent = "valid";
  int64_t step = 0;
  std::optional<double> loss;
  double seconds = 0;
  // Per channel: of fields; of persistence, where each target is an input; of single numbers
  std::vector<double> rmse, persistence_rmse, mae;
  std::optional<JacobianRecord> jacobian;
  // Of classes: of the net; of always saying the one that is most frequent in these samples
  std::optional<double> accuracy, baseline_accuracy;
};

struct RankRecord {  // of one rank; seconds are means of a step
  int64_t rank = 0;
  std::string host;
  double step_s = 0;
  std::optional<double> compute_s;  // in ops of the compute lane; none: the device times no ops
  double data_wait_s = 0;
  int64_t rss_bytes = 0, peak_rss_bytes = 0;  // of its process
  /// Of a host's first rank, on CPUs: the round trip of a cache line between its farthest cores
  /// (engine/core_hops.h). Of a rank that has its host for itself the median of those between its threads,
  /// every 20 ms of the steps; else of those between the host's cores before, between and after them
  std::optional<double> core_trip_ns;
  std::optional<double> mhz;    // clock of its cores, or of its GPU, after the last of these steps
  std::optional<double> watts;  // what it meters: of its GPU; of its host, where it is the first rank there
  /// Waits for other ranks, and what the executor itself takes
  std::optional<double> other_s() const {
    return compute_s ? std::optional(step_s - *compute_s - data_wait_s) : std::nullopt;
  }
};

struct RanksRecord {  // how the ranks did in the steps so far, without warm-up
  static constexpr const char* kEvent = "ranks";
  int64_t step = 0, steps = 0;  // after which; how many
  std::vector<RankRecord> ranks;
  std::optional<double> joules_per_step;  // of all hosts' processors and memory, or of all GPUs
  std::optional<std::string> energy;      // what of: "package-0, dram of package-0"; or why it is not known
  /// "compute 12.3 (rank 1) to 14.5 ms (rank 0) of a step of 16.0 ms; 35.1 J a step, 180 W (package-0)"
  std::string text() const;
};

struct CheckpointRecord {
  static constexpr const char* kEvent = "checkpoint";
  int64_t step = 0;
  std::string path;
  double seconds = 0;
};

struct DeviceShareRecord {  // how much of a device's time a trace gave to ops
  static constexpr const char* kEvent = "device_share";
  double joined_share = 0, device_s = 0;
  int64_t activities = 0, lost = 0;
  std::string text;  // the same, to people
};

struct PartRecord {        // a part of the net
  std::string kind, path;  // block, block07
};

struct OpRecord {
  std::string path, kind, lane;
  int64_t count = 0;   // executions in the run
  double seconds = 0;  // in all
  double flops = 0, bytes = 0;
  std::optional<PartRecord> part;  // none: of no part, or not recorded
  /// block*/attn/qkv: the ops of parts of one kind fall together.
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
  std::optional<double> rmse, persistence_rmse, mae, accuracy, baseline_accuracy;
};

struct EndRecord {
  static constexpr const char* kEvent = "run_end";
  std::string status;  // ok | failed
  // of one that failed
  std::optional<std::string> failure, message;  // its class (`class` in the file) and why
  std::optional<std::string> op, signal;        // that hung; that stopped it
  std::optional<int64_t> rank;                  // that says so
  // of one that came to its end
  std::optional<int64_t> steps, trained_steps;
  std::optional<std::string> stopped;  // why, before train.steps
  std::optional<double> seconds;
  std::optional<StepStats> step_s;
  std::optional<double> samples_per_s, final_loss;
  std::optional<LastValid> valid;
  std::optional<std::string> checkpoint;  // the last one
  std::optional<int64_t> peak_rss_bytes, file_rss_bytes;
  std::optional<double> unattributed_share;
  std::optional<std::vector<OpRecord>> ops;
  std::optional<std::vector<RoutineRecord>> routines;

  bool ok() const { return status == "ok"; }
};

struct UnknownRecord {  // of a later version, perhaps
  std::string event;
};

using Record = std::variant<UnknownRecord, StartRecord, DeviceRecord, ResumeRecord, StepRecord, ValidRecord,
                            RanksRecord, CheckpointRecord, DeviceShareRecord, EndRecord>;

/// "step", "run_end", …
std::string event_of(const Record& r);
nlohmann::json to_json(const Record& r);
nlohmann::json to_json(const MemoryRecord& m);

/// Where a record stands, and who hears what is wrong with it.
struct Place {
  std::string file;
  int64_t line = 0;
  std::vector<std::string>* problems = nullptr;  // null: the first one is thrown (ConfigError)
};
/// Each key that is of another type than it must be is one error that names file, line and key; where
/// problems are gathered it reads as an absent one. An object without `event` is an UnknownRecord of "".
Record record_from_json(const nlohmann::json& j, const Place& place);

}  // namespace isobar
