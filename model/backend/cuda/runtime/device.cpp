#include "model/backend/cuda/runtime/device.h"

#include <algorithm>

#include "model/base/error.h"

namespace isobar::cuda {

void check(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " + cudaGetErrorName(code) +
                " (" + cudaGetErrorString(code) + ")");
}

// ---- devices ----

Devices find_devices() {
  Devices found;
  ISOBAR_CUDA(cudaRuntimeGetVersion(&found.runtime));  // of the linked runtime: needs no driver
  if (cudaDriverGetVersion(&found.driver) != cudaSuccess || found.driver == 0) {
    cudaGetLastError();  // clears the error for the next call
    found.why_none = "no NVIDIA driver on this host";
    return found;
  }
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    cudaGetLastError();
    found.why_none = code == cudaErrorInsufficientDriver
                         ? "the NVIDIA driver is for CUDA " + std::to_string(found.driver / 1000) + "." +
                               std::to_string(found.driver % 1000 / 10) + ", older than this program's"
                     : code == cudaErrorNoDevice || code == cudaSuccess
                         ? std::string("no NVIDIA GPU that this process may see")
                         : std::string("no NVIDIA GPU can be used: ") + cudaGetErrorString(code);
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p{};
    ISOBAR_CUDA(cudaGetDeviceProperties(&p, i));
    int clock = 0;
    ISOBAR_CUDA(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, i));
    found.all.push_back({i, p.name, p.major, p.minor, p.multiProcessorCount,
                         static_cast<int64_t>(p.totalGlobalMem), p.l2CacheSize, clock, p.memoryBusWidth});
  }
  return found;
}

Device use_device(const std::string& file, int rank_on_host) {
  const Devices found = find_devices();
  if (found.all.empty()) throw ConfigError(file, "run.device", found.why_none, "set run.device: cpu");
  const Device& mine = found.all[static_cast<size_t>(rank_on_host) % found.all.size()];
  if (mine.major < 8)
    throw ConfigError(file, "run.device",
                      mine.name + " has compute capability " + std::to_string(mine.major) + "." +
                          std::to_string(mine.minor) + ", and 8.0 is the least",
                      "set run.device: cpu");
  ISOBAR_CUDA(cudaSetDevice(mine.index));
  ISOBAR_CUDA(cudaFree(nullptr));  // creates the context now, so that its memory is counted apart from the
                                   // arena's
  return mine;
}

// ---- memory ----

DeviceArena::DeviceArena(int64_t bytes) : bytes_(bytes) {
  void* p = nullptr;
  const cudaError_t code = cudaMalloc(&p, static_cast<size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    ISOBAR_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfDeviceMemory("the device cannot give the arena of " + std::to_string(bytes / 1000000) +
                            " MB: " + std::to_string(free / 1000000) + " MB of " +
                            std::to_string(total / 1000000) +
                            " MB are free; use a smaller policy.micro_batch, or policy.recompute full");
  }
  check(code, "cudaMalloc", __FILE__, __LINE__);
  data_ = static_cast<std::byte*>(p);
  ISOBAR_CUDA(cudaMemset(data_, 0, static_cast<size_t>(bytes)));
  ISOBAR_CUDA(cudaStreamSynchronize(nullptr));  // the lanes' streams do not wait for it
}

DeviceArena::~DeviceArena() {
  cudaFree(data_);
}

PinnedMemory::PinnedMemory(int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = nullptr;
  ISOBAR_CUDA(cudaHostAlloc(&p, static_cast<size_t>(bytes), cudaHostAllocPortable));
  data_ = static_cast<std::byte*>(p);
  std::fill_n(data_, bytes, std::byte{0});
}

PinnedMemory::~PinnedMemory() {
  cudaFreeHost(data_);
}

int64_t device_memory_in_use() {
  size_t free = 0, total = 0;
  ISOBAR_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(total - free);
}

// ---- order ----

Streams::Streams() {
  int low = 0, high = 0;  // numerically lower is more urgent
  ISOBAR_CUDA(cudaDeviceGetStreamPriorityRange(&low, &high));
  for (size_t lane = 0; lane < streams_.size(); ++lane)
    ISOBAR_CUDA(
        cudaStreamCreateWithPriority(&streams_[lane], cudaStreamNonBlocking,
                                     static_cast<plan::Lane>(lane) == plan::Lane::compute ? low : high));
}

Streams::~Streams() {
  for (cudaStream_t s : streams_)
    if (s) cudaStreamDestroy(s);
}

void Streams::sync() const {
  for (cudaStream_t s : streams_) ISOBAR_CUDA(cudaStreamSynchronize(s));
}

Event::Event(bool timed) {
  ISOBAR_CUDA(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
}

Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

}  // namespace isobar::cuda
