// A training, as the command calls it: from an empty or resumed run directory to the last record. The loop
// itself is Trainer::run (trainer.h).
//
//   Mpi mpi;
//   return train(load_run_spec("vit-384.yaml"), {.trace = "trace.json"}, mpi);
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/spec/spec.h"
#include "model/comm/comm.h"
#include "model/data/dataset.h"
#include "model/records/advice.h"
#include "model/records/records.h"

namespace isobar::engine {

struct TrainOptions {
  std::filesystem::path trace;                      // Chrome trace of the last steps; "" = none
  std::filesystem::path resume;                     // run directory or checkpoint; "" = start anew
  bool set_aside = false;                           // a damaged last one, for the last whole one
  nlohmann::json about = nlohmann::json::object();  // what people call it: kept in the run's provenance
  bool quiet = false;                               // no table of steps on stdout
  double peak_flops = 0;                            // FLOP/s of one rank, for the step lines' MFU; 0: unknown
  std::optional<records::ExpectedStep> expected = {};  // what advice compares steps with
  bool every_rank = false;                             // print the table on every rank, else on rank 0
  /// On rank 0, waits for the statistics that normalise the data if they are not given (begin_statistics).
  /// Empty: computed in this process.
  std::function<data::Statistics()> statistics = {};
  /// Called on every rank once run.out belongs to this training. May throw ConfigError.
  std::function<void()> begins = {};
  /// Called once with a failure of this rank, before its resources are released, because releasing them may
  /// hang. Not called for Interrupted.
  std::function<void(const std::exception&)> failed = {};
};

/// A loss or gradient was NaN or infinite. Exit code 3.
struct NumericFailure : std::runtime_error {
  using runtime_error::runtime_error;
};

/// A signal asked the run to stop, and all ranks stopped after the same step. Exit code 128 + signal.
struct Interrupted : std::runtime_error {
  Interrupted(int by, const std::string& what) : std::runtime_error(what), signal(by) {}
  int signal;
};

/// Called by every rank of the run; returns the end record on rank 0. Throws ConfigError, NumericFailure,
/// OutOfMemory or another exception; the failure is then already in result.jsonl, unless run.out belongs to
/// another training. Interrupted is thrown on all ranks, after a checkpoint if train.checkpoint_every is set.
/// A hang or a second signal ends the process here.
records::EndRecord train(const RunSpec& spec, const TrainOptions& options, const comm::Mpi& mpi);
/// Failure class in result.jsonl: bad_config, numeric, oom_device, oom_host, interrupted, crash.
std::string class_of(const std::exception& e);

/// OpenMP threads of this rank: run.threads, else its share of the host's cores.
int threads_per_rank(const RunSpec& spec, const comm::Mpi& mpi);

}  // namespace isobar::engine
