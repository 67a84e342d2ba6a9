// Device memory, and streams that do not wait for the null stream.
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

// The zeros must be there when the constructor returns: no lane's stream waits for the memset.
TEST(Kernels, AnArenaIsZeroBeforeAnyStreamWritesToIt) {
  ISOBAR_NEEDS_KERNELS();
#ifdef ISOBAR_EMULATED
  emulator::set_schedule(emulator::Schedule::newest_first);  // the null stream goes last
#endif
  constexpr int64_t kBytes = 4096;
  const Streams streams;
  const DeviceArena arena(kBytes);
  ISOBAR_CUDA(cudaMemsetAsync(arena.data(), 1, kBytes, streams[plan::Lane::compute]));
  streams.sync();
  ISOBAR_CUDA(cudaDeviceSynchronize());
  std::vector<std::byte> got(kBytes);
  ISOBAR_CUDA(cudaMemcpy(got.data(), arena.data(), kBytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::count(got.begin(), got.end(), std::byte{1}), kBytes);
}

}  // namespace
}  // namespace isobar::cuda::testing
