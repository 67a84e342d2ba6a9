// How long will a step take, how sure is that, and will it fit: the one answer, whatever computes.
//
//   Prediction p = predict(spec, load_machine("fitted.yaml"), {});
//   p.step_s (p.lower ... p.upper in 80 of 100 cases), p.terms, p.memory, p.fits()
//
// On cores the placed plans of all stages are priced, on accelerators the closed form of layouts; which of
// the two is device_of(spec, machine)'s to say. Throws ConfigError where run and machine contradict each
// other, and std::logic_error for a prediction above the machine's physical ceiling: that is a bug in the
// machine file or in the model, never a result.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/spec.h"
#include "model/nets/device_memory.h"
#include "model/plan/plan.h"
#include "perfmodel/estimate.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/checkpoint.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/simulate.h"
#include "perfmodel/step/utilization.h"
#include "perfmodel/term.h"

namespace isobar {

struct PredictOptions {
  HostShare host;                                   // of ranks on cores
  std::function<Workspace(int threads)> workspace;  // of the backend of cores, for its share of the memory
  // Of the backend of accelerators: their plans are then placed for their memory, which the closed form knows
  // to some percent.
  std::function<Workspace()> device_workspace = {};
  std::string
      campaign;  // whose run it is (MeasuredRun::campaign): a machine fitted to others knows less of it
  bool closed_form = false;  // on cores too: a thousand times as fast, and some tenths off the plans' price
};

struct Prediction {
  Device device = Device::cores;
  double step_s = 0, lower = 0, upper = 0;  // seconds of one optimizer step, 80 % interval
  double samples_per_s = 0, tokens_per_s = 0;
  double correction = 1;    // factor by which runs of this kind deviated from the counted terms
  std::vector<Term> terms;  // add up to step_s
  struct LaneTime {
    std::string lane;
    double seconds = 0, exposed = 0;  // its collectives; of them, what computation waits for
  };
  std::vector<LaneTime> lanes;  // of a rank's step, those with any; on cores, by plans
  std::vector<std::pair<std::string, int64_t>> memory;  // bytes of the fullest rank by category
  int64_t memory_total = 0;                             // bytes of the fullest rank
  double memory_there = 0;                              // bytes that a rank has for itself
  double hardware_flops = 0;                            // matrix FLOPs of all ranks' step, recomputation too
  double ceiling_s = 0;                                 // no machine of these peaks is faster
  CheckpointCost checkpoint;                            // beside the steps
  Conditions where;
  std::vector<std::string> warnings;
  Counts counts{};  // of the slowest rank's step, hidden or not, in units of the coefficients

  bool fits() const { return static_cast<double>(memory_total) <= memory_there; }
};

/// policy.micro_batch is the run's: with 0 the whole batch of a rank, as on cores.
Prediction predict(const RunSpec& spec, const Machine& machine, const PredictOptions& options);

/// What the engine does on a GPU with policy.micro_batch 0 (nets/device_memory.h), by the machine file's
/// memory and options.device_workspace. On cores, and where one is given, the specification as it is.
MicroBatchChoice choose_micro_batch(const RunSpec& spec, const Machine& machine,
                                    const PredictOptions& options);

/// "a rank needs 93.1 GB of an accelerator's 80 GB"; "" where it fits.
std::string shortfall(const Prediction& p);
/// "80 GB": three digits
std::string gigabytes(double bytes);
/// Model and hardware FLOP/s of a rank, MFU and HFU (step/utilization.h).
Rates rates_of(const Prediction& p, const RunSpec& spec, const Machine& machine);
/// The schedule replayed op by op under the conditions of a prediction.
Replay replay(const RunSpec& spec, const std::vector<StageProgram>& stages, const Machine& machine,
              const Prediction& p);

/// Throws std::logic_error for a step that is shorter than the machine's peaks allow.
void refuse_above_ceiling(double seconds, double ceiling_s, const Machine& m);

}  // namespace isobar
