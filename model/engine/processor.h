// Where a rank computes, as run.device says: on this host's cores, or on one of its GPUs. Chosen before the
// plan is built, because kernels differ in the scratch that they take.
//
//   const ComputeDevice device = choose_device(spec, mpi.rank_on_host());
//   const Plan plan = build_plan(spec, rank, workspace_of(device, spec, threads));
//   const auto processor = make_processor(device, spec, plan, mpi, threads);
//   processor->runner()(program, step);
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/backend/backend.h"
#include "model/backend/runner.h"
#include "model/base/spec.h"
#include "model/comm/comm.h"
#include "model/engine/energy_meter.h"
#include "model/nets/device_memory.h"
#include "model/trace/device_records.h"

namespace isobar {

struct ComputeDevice {
  bool gpu = false;
  int index = 0;       // of the GPU on this host
  int capability = 0;  // major
  int sms = 0;         // multiprocessors
  std::string name;    // of the GPU
};

class Processor {  // a rank's memory, backend and executor
 public:
  virtual ~Processor() = default;
  virtual Backend& backend() = 0;
  virtual Runner& runner() = 0;
  /// For the log: what computes, and the memory that is not in the plan. null: nothing to add
  virtual nlohmann::json describe() const { return nullptr; }

  /// To be told when the first step is over: what libraries take late is there from then on.
  virtual void first_step_done() {}

  /// The device's clock now, MHz, and its counter of energy; a CPU's are its host's (host.h, energy_meter.h).
  virtual std::optional<double> mhz() const { return std::nullopt; }
  virtual EnergyCounters energy() const { return {}; }

  /// What a user should know of how this run computes, before its first step: a line each.
  virtual std::vector<std::string> remarks() const { return {}; }

  // ---- a trace by the device itself, where it can: without it the runner times its ops (Runner::record_to)
  // ----
  /// Whether runs of `program` are watched from here on.
  virtual bool watch(const Program&) { return false; }
  virtual void stop_watching() {}
  /// The spans of all that was watched, times from `origin_ns` on, and how much of the device's time they
  /// are.
  virtual DeviceJoin watched(int64_t /*origin_ns*/) { return {}; }
};

/// Throws ConfigError where run.device asks for a GPU and there is none.
ComputeDevice choose_device(const RunSpec& spec, int rank_on_host);
Workspace workspace_of(const ComputeDevice& device, const RunSpec& spec, int threads);
/// policy.micro_batch 0 on a GPU: the largest whose plan fits (nets/device_memory.h), with the device's
/// memory and what others have of it now. On the CPU, and where one is given, the specification as it is.
/// Collective: of what the ranks find the least.
MicroBatchChoice choose_micro_batch(const ComputeDevice& device, const RunSpec& spec, const Mpi& mpi);
/// The same for a run that is only planned: without the device its memory is taken to be enough for any.
MicroBatchChoice planned_micro_batch(const RunSpec& spec);
/// Scratch on a GPU of this compute capability (major; Hopper where nobody says which). Nothing where this
/// program has no CUDA.
Workspace gpu_workspace(const RunSpec& spec, int capability = 9);
/// The same for a run that is only planned: of the device that run.device names, whether it is here or not. A
/// GPU that is not here counts as Hopper.
Workspace planned_workspace(const RunSpec& spec, int threads);
/// Collective over all ranks. `threads`: of this rank's on the CPU; `traced`: steps may be watched. Throws
/// OutOfMemory.
std::unique_ptr<Processor> make_processor(const ComputeDevice& device, const RunSpec& spec, const Plan& plan,
                                          const Mpi& mpi, int threads, bool traced);

}  // namespace isobar
