// The device that a rank computes on, chosen by run.device: this host's cores or one of its GPUs. It is
// chosen before the plan is built, because kernels differ in the scratch that they need.
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
#include "model/base/spec/spec.h"
#include "model/comm/comm.h"
#include "model/engine/host/energy_meter.h"
#include "model/engine/host/load_meter.h"
#include "model/nets/layout/device_memory.h"
#include "model/trace/device_records.h"

namespace isobar::engine {

struct ComputeDevice {
  bool gpu = false;
  int index = 0;       // of the GPU on this host
  int capability = 0;  // compute capability, major
  int sms = 0;         // multiprocessors
  std::string name;    // GPU name
};

class Processor {  // a rank's memory, backend and executor
 public:
  virtual ~Processor() = default;
  virtual Backend& backend() = 0;
  virtual Runner& runner() = 0;
  /// Device description for the log, with memory outside the plan. null: none
  virtual nlohmann::json describe() const { return nullptr; }

  /// Called after the first step, when lazily allocated memory of libraries is in place.
  virtual void first_step_done() {}

  /// The device's current clock in MHz, and its energy counters; for a CPU they are its host's (host.h,
  /// energy_meter.h).
  virtual std::optional<double> mhz() const { return std::nullopt; }
  virtual EnergyCounters energy() const { return {}; }
  /// How a GPU is loaded now; called from a thread of its own, and may take tens of milliseconds.
  virtual std::optional<DeviceLoad> load() const { return std::nullopt; }

  /// Remarks for the user before the first step, one a line.
  virtual std::vector<std::string> remarks() const { return {}; }

  // ---- device tracing, where available; otherwise the runner times its ops (Runner::record_to) ----
  //
  // Starts tracing runs of `program`; returns false if the device cannot be traced.
  virtual bool watch(const plan::Program&) { return false; }
  virtual void stop_watching() {}
  /// True from a watch() that returned true until stop_watching(): the device then times the ops.
  virtual bool watches() const { return false; }
  /// Spans of all traced runs, with times relative to `origin_ns`, and the share of device time that they
  /// cover.
  virtual trace::DeviceJoin watched(int64_t /*origin_ns*/) { return {}; }
};

/// Throws ConfigError if run.device requests a GPU and there is none.
ComputeDevice choose_device(const RunSpec& spec, int rank_on_host);
plan::Workspace workspace_of(const ComputeDevice& device, const RunSpec& spec, int threads);
/// Resolves policy.micro_batch 0 on a GPU: the largest whose plan fits into the currently free memory
/// (nets/layout/device_memory.h). On the CPU, or if it is given, the specification is unchanged. Collective:
/// the minimum over ranks.
nets::MicroBatchChoice choose_micro_batch(const ComputeDevice& device, const RunSpec& spec,
                                          const comm::Mpi& mpi);
/// The same for a run that is only planned; if the GPU is absent, its memory counts as unlimited.
nets::MicroBatchChoice planned_micro_batch(const RunSpec& spec);
/// Workspace on a GPU of this compute capability (major; Hopper by default); empty without CUDA in this
/// build.
plan::Workspace gpu_workspace(const RunSpec& spec, int capability = 9);
/// Workspace of the device that run.device names, for a run that is only planned; an absent GPU counts as
/// Hopper.
plan::Workspace planned_workspace(const RunSpec& spec, int threads);
/// Collective over all ranks. `threads`: this rank's CPU threads; `traced`: steps may be traced. Throws
/// OutOfMemory.
std::unique_ptr<Processor> make_processor(const ComputeDevice& device, const RunSpec& spec,
                                          const plan::Plan& plan, const comm::Mpi& mpi, int threads,
                                          bool traced);

}  // namespace isobar::engine
