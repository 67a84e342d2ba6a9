#include <gtest/gtest.h>

#include "bench/micro/device/cases.h"
#include "model/backend/cuda/kernels/kernels.h"

namespace isobar {
namespace {

TEST(Clocks, HeatAndBrakesDiscardASampleThePowerLimitDoesNot) {
  const ClockState good{.mhz = 1500, .max_mhz = 1980};
  EXPECT_FALSE(throttled(good));
  EXPECT_FALSE(throttled(std::nullopt)) << "unknown clocks count as good";
  const auto with = [&](uint64_t reasons) {
    ClockState s = good;
    s.reasons = reasons;
    return throttled(s);
  };
  EXPECT_FALSE(with(0x4)) << "software power cap";
  EXPECT_FALSE(with(0x1)) << "idle, the moment before";
  for (const uint64_t bit : {0x8, 0x20, 0x40, 0x80}) EXPECT_TRUE(with(0x4 | bit)) << bit;
  EXPECT_TRUE(throttled(ClockState{.mhz = 345, .max_mhz = 1980})) << "not yet risen from idling";
}

TEST(Clocks, SayWhyThereAreNone) {
  const Clocks clocks("0000:ff:1f.0");  // an address without a GPU
  EXPECT_FALSE(clocks.read());
  EXPECT_FALSE(clocks.why().empty());
}

TEST(DeviceTimer, ColdOperandsTakeLongerThanWarmOnes) {
  const cuda::Devices found = cuda::find_devices();
  if (found.all.empty()) GTEST_SKIP() << found.why_none;
  cuda::use_device("", 0);
  const DeviceTimer timer;
  const int64_t n = timer.device().l2 / 4 / 4;  // floats: x, y and sum fill half of the cache
  cuda::DeviceArena x(4 * n), y(2 * n), sum(4 * n);
  cuda::fill_noise(x.bytes(), x.data(), timer.streams()[Lane::compute]);
  cuda::fill_noise(y.bytes(), y.data(), timer.streams()[Lane::compute]);
  const auto launch = [&](cudaStream_t s) {
    cuda::residual_add(n, DType::bf16, reinterpret_cast<const float*>(x.data()), y.data(),
                       reinterpret_cast<float*>(sum.data()), s);
  };
  const auto cold = timer.prepare(launch, true), warm = timer.prepare(launch, false);
  double best[2] = {1, 1};
  for (int i = 0; i < 5; ++i) {
    best[0] = std::min(best[0], timer.sample(*cold).seconds);
    best[1] = std::min(best[1], timer.sample(*warm).seconds);
  }
  EXPECT_GT(best[1], 0);
  EXPECT_GT(best[0], best[1]);
  EXPECT_LT(best[0], 1e-2);
}

}  // namespace
}  // namespace isobar
