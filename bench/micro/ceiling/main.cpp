// Sustained rate of large bf16 products on this host's GPU over some seconds, the ceiling for training steps.
// A short benchmark runs on a cool chip at its highest clock, which a training cannot hold.
//
//   build/gpu_ceiling [SECONDS]      # JSON: FLOP/s of the first second and of all after it, clock, power
//
// Exit code 77 without a GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "model/backend/cuda/libraries/gemm.h"
#include "model/backend/cuda/runtime/clocks.h"
#include "model/backend/cuda/runtime/device.h"

namespace isobar::micro {
namespace {

constexpr int64_t kSize = 8192, kWorkspace = int64_t{32} << 20, kBatch = 20;  // products between readings

// N(0, 1): power draw depends on the data, and zeros draw little.
void fill(const cuda::DeviceArena& arena) {
  std::vector<bf16> block(1 << 20);
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  for (bf16& x : block) x = to_bf16(normal(engine));
  const auto bytes = static_cast<int64_t>(block.size() * sizeof(bf16));
  for (int64_t at = 0; at < arena.bytes(); at += bytes)
    ISOBAR_CUDA(cudaMemcpy(arena.data() + at, block.data(),
                           static_cast<size_t>(std::min(bytes, arena.bytes() - at)), cudaMemcpyHostToDevice));
}

nlohmann::json measure(double seconds) {
  const cuda::Device device = cuda::use_device("gpu_ceiling", 0);
  const int64_t bytes = kSize * kSize * 2;
  const cuda::DeviceArena a(bytes), b(bytes), c(bytes), workspace(kWorkspace);
  fill(a);
  fill(b);
  const cuda::Streams streams;
  const cudaStream_t stream = streams[plan::Lane::compute];
  cuda::Gemms gemms(GemmChoice::timed);
  const cuda::GemmKey key{
      .m = kSize, .n = kSize, .k = kSize, .trans_b = true, .in = DType::bf16, .out = DType::bf16};
  const cuda::GemmOperands x{a.data(), b.data(), nullptr, c.data()};
  ISOBAR_CUDA(cudaDeviceSynchronize());  // copies use another stream
  if (!gemms.prepare(key, x, workspace.data(), kWorkspace, stream))
    throw std::runtime_error("cuBLASLt has no product of 8192 x 8192 bf16");

  const Clocks clocks(bus_of(device.index));
  using Clock = std::chrono::steady_clock;
  const auto since = [begun = Clock::now()] {
    return std::chrono::duration<double>(Clock::now() - begun).count();
  };
  std::vector<unsigned> mhz;
  double watts = 0, first_s = 0, last_s = 0;
  int64_t first = 0, all = 0, looks = 0;
  unsigned limit = 0;
  uint64_t reasons = 0;
  while (last_s < seconds) {
    for (int64_t i = 0; i < kBatch; ++i) gemms.run(key, x, workspace.data(), kWorkspace, stream);
    if (const auto now = clocks.read()) {  // read while products run
      mhz.push_back(now->mhz);
      limit = now->max_mhz;
      reasons |= now->reasons;
      watts += now->watts;
      ++looks;
    }
    ISOBAR_CUDA(cudaStreamSynchronize(stream));
    all += kBatch;
    last_s = since();
    if (last_s < 1) first = all, first_s = last_s;
  }
  const double flops = 2.0 * kSize * kSize * kSize;
  nlohmann::json j{{"device", device.name},
                   {"seconds", last_s},
                   {"first_flops_per_s", first_s > 0 ? flops * static_cast<double>(first) / first_s : 0},
                   {"sustained_flops_per_s", flops * static_cast<double>(all - first) / (last_s - first_s)},
                   {"cublaslt", cuda::Gemms::library_version()},
                   {"why", clocks.why()}};
  if (!mhz.empty()) {
    std::sort(mhz.begin(), mhz.end());
    j["clock_mhz"] = {
        {"least", mhz.front()}, {"median", mhz[mhz.size() / 2]}, {"most", mhz.back()}, {"limit", limit}};
    j["watts"] = watts / static_cast<double>(looks);
    j["held_down_by"] = reasons;  // NVML's throttle bits
  }
  return j;
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 6;
  if (!(seconds > 0 && seconds <= 600)) {
    std::fprintf(stderr, "gpu_ceiling: '%s' is no number of seconds up to 600\n", argv[1]);
    return 2;
  }
  try {
    if (const auto found = isobar::cuda::find_devices(); found.all.empty()) {
      std::fprintf(stderr, "gpu_ceiling: %s\n", found.why_none.c_str());
      return 77;
    }
    std::printf("%s\n", isobar::micro::measure(seconds).dump().c_str());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_ceiling: %s\n", e.what());
    return 1;
  }
}
