// Predicts a step's time, its uncertainty, and whether it fits, for any device.
//
//   Prediction p = predict(spec, load_machine("fitted.yaml"), {});
//   p.step_s (p.lower ... p.upper in 80 of 100 cases), p.terms, p.memory, p.fits()
//
// On cores the plans of all stages are replayed, on accelerators and where a step is long the closed form of
// layouts answers. Throws ConfigError if run and machine contradict each other, and
// std::logic_error for a step faster than the machine's peaks: a bug in the machine file or the model.
//
// The lines of a prediction: a step's seconds by cause, largest first. Closed form and replay share the
// names, so that a line always means the same.
//
//   Counts parts = ...;                                                  // seconds by coefficient
//   p.terms = name_terms(parts, {{term::kBubble, s.bubble}}, p.correction);
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/nets/layout/device_memory.h"
#include "model/plan/plan.h"
#include "perfmodel/ask/estimate.h"
#include "perfmodel/machine/coefficient.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/checkpoint.h"
#include "perfmodel/step/simulate.h"
#include "perfmodel/step/utilization.h"

namespace isobar::perf {

struct Term {
  std::string name;
  double seconds = 0;
};

/// Lines that are no coefficient's own (coefficient.cpp names those).
namespace term {
constexpr const char* kExposed = "exposed communication";
constexpr const char* kSlowdown = "compute slowed by communication";
constexpr const char* kBubble = "pipeline bubble";
constexpr const char* kImbalance = "waiting for the slowest rank";
constexpr const char* kReading = "reading data";
constexpr const char* kStolen = "cores taken by loader threads";
constexpr const char* kDataWait = "waiting for loader threads";
constexpr const char* kBoundaries = "stage boundaries";
constexpr const char* kTensor = "exposed TP communication";
constexpr const char* kContext = "exposed CP communication";
constexpr const char* kExperts = "exposed EP communication";
constexpr const char* kTransfers = "pipeline transfers";
constexpr const char* kData = "exposed DP communication";
}  // namespace term

/// Merges coefficients of one name and drops zero lines. `correction`: factor on all of them.
std::vector<Term> name_terms(const Counts& parts, const std::vector<Term>& others, double correction);

struct PredictOptions {
  HostShare host;                                         // of ranks on cores
  std::function<plan::Workspace(int threads)> workspace;  // of the CPU backend, for its share of the memory
  // Workspace of the GPU backend: plans are then placed for their memory, which the closed form knows only to
  // some percent.
  std::function<plan::Workspace()> device_workspace = {};
  std::string campaign;  // whose run it is (MeasuredRun::campaign): a fit to other campaigns is less certain
  bool closed_form = false;  // also on cores: a thousand times as fast, less accurate
};

struct Prediction {
  Device device = Device::cores;
  double step_s = 0, lower = 0, upper = 0;  // seconds of one optimizer step, 80 % interval
  double samples_per_s = 0, tokens_per_s = 0;
  double correction = 1;    // factor by which runs of this kind deviated from the counted terms
  std::vector<Term> terms;  // add up to step_s
  struct LaneTime {
    std::string lane;
    double seconds = 0, exposed = 0;  // its collectives; of them, the exposed part
  };
  std::vector<LaneTime> lanes;  // of a rank's step, without empty ones; on cores, by plans
  std::vector<std::pair<std::string, int64_t>> memory;  // bytes of the fullest rank by category
  int64_t memory_total = 0;                             // bytes of the fullest rank
  double memory_there = 0;                              // bytes available to a rank
  double hardware_flops = 0;                            // matrix FLOPs of all ranks' step, recomputation
                                                        // included
  double ceiling_s = 0;                                 // least time by the machine's peaks
  CheckpointCost checkpoint;                            // between steps
  Conditions where;
  std::vector<std::string> warnings;
  ErrorParts errors;  // of the closed form's logarithm, where nothing was fitted
  Counts counts{};    // of the slowest rank's step, hidden or not, in units of the coefficients

  bool fits() const { return static_cast<double>(memory_total) <= memory_there; }
};

/// policy.micro_batch 0 means the whole batch of a rank, as on cores.
Prediction predict(const RunSpec& spec, const Machine& machine, const PredictOptions& options);

/// Resolves policy.micro_batch 0 as the engine does on a GPU (nets/layout/device_memory.h), with the machine
/// file's memory and options.device_workspace. Otherwise returns the specification unchanged.
nets::MicroBatchChoice choose_micro_batch(const RunSpec& spec, const Machine& machine,
                                          const PredictOptions& options);

/// "a rank needs 93.1 GB of an accelerator's 80 GB"; "" if it fits.
std::string shortfall(const Prediction& p);
/// "80 GB": three digits
std::string gigabytes(double bytes);
/// Model and hardware FLOP/s of a rank, MFU and HFU (step/utilization.h).
Rates rates_of(const Prediction& p, const RunSpec& spec, const Machine& machine);
/// Throws std::logic_error for a step that is shorter than the machine's peaks allow.
void refuse_above_ceiling(double seconds, double ceiling_s, const Machine& m);

}  // namespace isobar::perf
