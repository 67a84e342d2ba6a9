#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "bench/micro/device/cases.h"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"

namespace isobar {
namespace {

constexpr double kReplaySeconds = 2e-3;  // work in a replay, long against the resolution of events
constexpr int kMostLaunches = 200;
constexpr int kTries = 20;  // most attempts for a sample without throttling, with pauses

cuda::Device this_device() {
  int index = 0;
  ISOBAR_CUDA(cudaGetDevice(&index));
  return cuda::find_devices().all.at(static_cast<size_t>(index));
}

}  // namespace

DeviceTimer::Case::~Case() {
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
}

DeviceTimer::DeviceTimer()
    : device_(this_device()),
      clocks_(bus_of(device_.index)),
      sweep_(std::make_unique<cuda::DeviceArena>(3 * std::max<int64_t>(device_.l2, 1 << 20))),
      sum_(std::make_unique<cuda::DeviceArena>(64 << 10)) {
  cuda::fill_noise(sweep_->bytes(), sweep_->data(), streams_[Lane::compute]);
  streams_.sync();
}

DeviceTimer::~DeviceTimer() = default;

// Evicts by reading: written lines would be flushed to memory while the op runs.
void DeviceTimer::sweep_cache(cudaStream_t stream) const {
  auto* out = reinterpret_cast<float*>(sum_->data());
  cuda::squared_sum(sweep_->bytes() / 4, sweep_->data(), DType::f32, out, false,
                    reinterpret_cast<double*>(sum_->data() + 256), stream);
}

std::unique_ptr<DeviceTimer::Case> DeviceTimer::prepare(const Launch& launch, bool cold) const {
  const cudaStream_t stream = streams_[Lane::compute];
  launch(stream);  // triggers lazy loading
  cuda::Event begin(true), end(true);
  ISOBAR_CUDA(cudaEventRecord(begin.get(), stream));
  launch(stream);
  ISOBAR_CUDA(cudaEventRecord(end.get(), stream));
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
  float ms = 0;
  ISOBAR_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));

  auto c = std::make_unique<Case>();
  const double once = std::max(static_cast<double>(ms) * 1e-3, 1e-6);
  c->launches = std::clamp(static_cast<int>(kReplaySeconds / once), 4, kMostLaunches);
  const int stretches = cold ? c->launches : 1;
  for (int i = 0; i < 2 * stretches; ++i) c->events.emplace_back(true);
  const auto mark = [&](int i) {
    ISOBAR_CUDA(
        cudaEventRecordWithFlags(c->events[static_cast<size_t>(i)].get(), stream, cudaEventRecordExternal));
  };
  ISOBAR_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < c->launches; ++i) {
    if (cold) sweep_cache(stream);
    if (cold || i == 0) mark(cold ? 2 * i : 0);
    launch(stream);
    if (cold || i + 1 == c->launches) mark(cold ? 2 * i + 1 : 1);
  }
  ISOBAR_CUDA(cudaStreamEndCapture(stream, &c->graph));
  ISOBAR_CUDA(cudaGraphInstantiate(&c->exec, c->graph, 0));
  ISOBAR_CUDA(cudaGraphLaunch(c->exec, stream));  // the first replay uploads it
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
  return c;
}

DeviceTimer::Sample DeviceTimer::sample(Case& c) const {
  const cudaStream_t stream = streams_[Lane::compute];
  Sample s;
  for (; s.discarded < kTries; ++s.discarded) {
    ISOBAR_CUDA(cudaGraphLaunch(c.exec, stream));
    const auto during = clocks_.read();  // the host runs ahead, so this reads during the replay
    ISOBAR_CUDA(cudaStreamSynchronize(stream));
    if (throttled(during)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    double total = 0;
    for (size_t i = 0; i + 1 < c.events.size(); i += 2) {
      float ms = 0;
      ISOBAR_CUDA(cudaEventElapsedTime(&ms, c.events[i].get(), c.events[i + 1].get()));
      total += static_cast<double>(ms) * 1e-3;
    }
    s.seconds = total / c.launches;
    return s;
  }
  throw cuda::Failure("the GPU's clock is held down by heat or a brake: nothing can be measured");
}

}  // namespace isobar
