// The training loop of one rank.
//
//   Mpi mpi;
//   return train(load_run_spec("vit-384.yaml"), {.trace = "trace.json"}, mpi);
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/base/spec.h"
#include "model/comm/comm.h"
#include "model/data/dataset.h"
#include "model/records/records.h"

namespace isobar {

struct TrainOptions {
  std::filesystem::path trace;                      // Chrome trace of the last steps; "" = none
  std::filesystem::path resume;                     // run directory or checkpoint; "" = start anew
  bool set_aside = false;                           // a damaged last one, for the last whole one
  nlohmann::json about = nlohmann::json::object();  // what people call it: kept in the run's provenance
  bool quiet = false;                               // no table of steps on stdout
  bool every_rank = false;                          // that table from each rank, else from rank 0
  /// On rank 0, where the data are normalised by statistics that are not given: waits for them
  /// (begin_statistics). Empty: computed in this process.
  std::function<Statistics()> statistics = {};
  /// Is called once run.out is known to be this training's, on every rank. May throw ConfigError.
  std::function<void()> begins = {};
  /// Is told of a failure of this rank while all that it computed with still stands: taking that down may
  /// itself never end. Not of Interrupted.
  std::function<void(const std::exception&)> failed = {};
};

/// Training met a loss or gradient that is no number. Exit code 3.
struct NumericFailure : std::runtime_error {
  using runtime_error::runtime_error;
};

/// A signal asked the run to stop, and all ranks did after the same step. Exit code 128 + signal.
struct Interrupted : std::runtime_error {
  Interrupted(int by, const std::string& what) : std::runtime_error(what), signal(by) {}
  int signal;
};

/// Every rank of the run calls it. Returns, on rank 0, how it ended. Throws on failure: ConfigError,
/// NumericFailure, OutOfMemory or another exception; the failure is in result.jsonl by then, unless run.out
/// is another training's. Interrupted comes on all ranks, after a checkpoint where train.checkpoint_every
/// asks for any. A hang, or a second signal, ends the process here.
EndRecord train(const RunSpec& spec, const TrainOptions& options, const Mpi& mpi);
/// The class that result.jsonl gives a failure: bad_config, numeric, oom_device, oom_host, interrupted,
/// crash.
std::string class_of(const std::exception& e);

/// OpenMP threads of this rank: run.threads, else its share of the host's cores.
int threads_per_rank(const RunSpec& spec, const Mpi& mpi);

}  // namespace isobar
