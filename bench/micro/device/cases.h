// Google Benchmark cases on an NVIDIA GPU, from the same op descriptors as the CPU's (bench/micro/cases.h),
// with the same names and counters: what perfmodel/fitting/calibrate.h reads.
//
// A time is the device's own: events inside a captured graph, as the engine replays it, around each launch
// (cold: the L2 cache is swept between them) or around a run of launches on the same operands (warm). A
// sample during which heat or a brake held the clock down is thrown away and taken again; a case that finds
// no good one fails.
//
//   const DeviceTimer timer;                       // the calling thread's device
//   register_device_op_cases(spec, timer);  register_device_peak_cases(timer);
//   add_device_context(timer);   nlohmann::json j = run_registered("device");
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/backend/cuda/runtime/clocks.h"
#include "model/backend/cuda/runtime/device.h"
#include "model/base/spec.h"
#include "model/comm/comm.h"

namespace isobar {

class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  using Launch = std::function<void(cudaStream_t)>;  // enqueues one op
  struct Sample {
    double seconds = 0;     // of one launch: mean over those of one replay
    int64_t discarded = 0;  // samples before it
  };
  struct Case {  // a launch captured many times
    Case() = default;
    ~Case();
    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    int launches = 0;
    std::vector<cuda::Event> events;  // begin, end of each timed stretch
  };
  std::unique_ptr<Case> prepare(const Launch& launch, bool cold) const;
  /// Throws cuda::Failure when the clock does not recover.
  Sample sample(Case& c) const;

  const cuda::Device& device() const { return device_; }
  const cuda::Streams& streams() const { return streams_; }
  const std::string& clocks_missing() const { return clocks_.why(); }

 private:
  void sweep_cache(cudaStream_t stream) const;
  cuda::Device device_;
  cuda::Streams streams_;
  Clocks clocks_;
  std::unique_ptr<cuda::DeviceArena> sweep_, sum_;  // read to push everything else out of L2
};

void register_device_op_cases(const RunSpec& spec, const DeviceTimer& timer);
/// Attention alone by head size, forward and backward: its kernels pad heads and choose tiles by that.
void register_device_attention_cases(const DeviceTimer& timer);
/// Large products by type and a device-to-device copy: the two ceilings; and a copy from the host.
void register_device_peak_cases(const DeviceTimer& timer);
/// A whole step of a tiny net as the engine runs it, and what the host takes to launch one.
void register_device_step_cases(const DeviceTimer& timer);
/// Collectives over all ranks, each on its device; busbw as nccl-tests counts it. Every rank registers and
/// runs the same. Where ranks share a GPU the names end in /shared-gpu: a correctness mode, no figure of a
/// network.
void register_nccl_cases(const Mpi& mpi);
void add_device_context(const DeviceTimer& timer);

}  // namespace isobar
