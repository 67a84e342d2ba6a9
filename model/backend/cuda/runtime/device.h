// Basics of the GPU code: checked calls, the devices of this host, memory, and one stream a lane.
//
// No CUDA call is made before a device is requested, so a CUDA build runs on the CPU without a driver.
//
//   use_device(0);                                  // throws ConfigError if there is none
//   DeviceArena arena(plan.memory.arena);           // exactly this size, zeroed
//   Streams streams;
//   kernel<<<blocks, threads, 0, streams[Lane::compute]>>>(…);
//   ISOBAR_CUDA(cudaGetLastError());
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/plan/ops/op.h"

namespace isobar::cuda {

struct Failure : std::runtime_error {  // of a call to CUDA or one of its libraries
  using runtime_error::runtime_error;
};
struct OutOfDeviceMemory : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Throws Failure with the call, its place and CUDA's message, unless `code` is success.
void check(cudaError_t code, const char* call, const char* file, int line);
#define ISOBAR_CUDA(call) ::isobar::cuda::check((call), #call, __FILE__, __LINE__)

// ---- devices ----
struct Device {
  int index = 0;
  std::string name;          // NVIDIA H100 80GB HBM3
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory = 0, l2 = 0;  // bytes
  int64_t memory_clock_khz = 0, memory_bus_bits = 0;
};
struct Devices {
  std::vector<Device> all;
  std::string why_none;  // "no NVIDIA driver", …; empty if there are devices
  int driver = 0;        // newest CUDA version of the driver: 13000 for 13.0
  int runtime = 0;
};
/// Asks the driver. Does not throw if there is none.
Devices find_devices();
/// Selects device `rank_on_host` modulo their number for the process. Throws ConfigError (`file`: the spec's)
/// with the reason if there is none.
Device use_device(const std::string& file, int rank_on_host);

// ---- memory ----
class DeviceArena {
 public:
  explicit DeviceArena(int64_t bytes);  // zeroed; throws OutOfDeviceMemory
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_;
};

class PinnedMemory {  // page-locked, for asynchronous copies
 public:
  explicit PinnedMemory(int64_t bytes);  // zeroed
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_;
};

/// Device memory in use by all processes: the difference across a library's start is what it takes.
int64_t device_memory_in_use();

// ---- order ----
class Streams {  // one in-order queue a lane; transfers have priority over compute
 public:
  Streams();
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  cudaStream_t operator[](plan::Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
  void sync() const;  // waits for all of them

 private:
  std::array<cudaStream_t, plan::kLanes> streams_{};
};

class Event {
 public:
  explicit Event(bool timed = false);
  ~Event();
  Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Event& operator=(Event&&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Milliseconds of one `enqueue()` on `stream`: the mean of twenty in a row, after three to warm up.
template <class Enqueue>
float milliseconds_of(cudaStream_t stream, const Enqueue& enqueue) {
  constexpr int kWarmUp = 3, kRuns = 20;
  const Event begin(true), end(true);
  for (int i = 0; i < kWarmUp; ++i) enqueue();
  ISOBAR_CUDA(cudaEventRecord(begin.get(), stream));
  for (int i = 0; i < kRuns; ++i) enqueue();
  ISOBAR_CUDA(cudaEventRecord(end.get(), stream));
  ISOBAR_CUDA(cudaEventSynchronize(end.get()));
  float ms = 0;
  ISOBAR_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));
  return ms / kRuns;
}

}  // namespace isobar::cuda
