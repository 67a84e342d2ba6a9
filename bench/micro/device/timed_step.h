// A plan on a GPU, and a spec's step on it whose ops are timed within it: with caches as the previous ops
// left them and at the clock that the card holds under such steps (bench/micro/timed_step.h is the CPU's).
//
//   DeviceTimedStep step(spec, timer);
//   for (const Op* op : step.distinct()) step.seconds(step.name(*op), 0);
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/device/timer.h"
#include "model/backend/cuda/cuda_backend.h"
#include "model/base/spec/spec.h"
#include "model/plan/link.h"

namespace isobar::micro {

/// A plan on the device whose arena is filled with finite noise, so that any op can run alone. Ops are not
/// fused into products, because each has a price.
struct DeviceBench {
  DeviceBench(plan::Plan plan, const DeviceTimer& timer, const RunOptions& run = {});
  const plan::Plan plan;
  cuda::DeviceArena arena;
  cuda::PinnedMemory host;
  cuda::CudaBackend backend;
};

class DeviceTimedStep {
 public:
  static constexpr int kRepetitions = 2;

  DeviceTimedStep(const RunSpec& spec, const DeviceTimer& timer);

  /// One op of each name, in the step's order, without batch loading and transfers.
  std::vector<const plan::Op*> distinct() const;
  /// KIND/DTYPE/SHAPE, as calibrate.h parses it: ops of one name do the same work.
  std::string name(const plan::Op& op) const;
  struct Repetition {
    std::map<std::string, double> seconds;  // by name: mean over the step's ops of that name
    DeviceTimer::Timing timing;             // of the whole step
  };
  /// The first request of a repetition measures all ops.
  const Repetition& repetition(int index);

  /// Loss of the last step that ran. Finite, or its products draw less power than a training's.
  float loss();

  const plan::Plan& plan() const { return bench_.plan; }

 private:
  void set_first_values();
  void land(const plan::Op& fetch, int32_t slot, cudaStream_t stream);
  void draw(const plan::View& batch, cuda::DeviceArena& to, cudaStream_t stream) const;

  const DeviceTimer& timer_;
  int64_t vocabulary_;  // 0: the net reads no words
  DeviceBench bench_;
  std::vector<const plan::Op*> ops_;                            // sections, fetches among them
  std::map<size_t, std::unique_ptr<cuda::DeviceArena>> batch_;  // noise, by the fetch's write
  std::unique_ptr<DeviceTimer::Case> case_;
  std::vector<Repetition> repetitions_;
};

}  // namespace isobar::micro
