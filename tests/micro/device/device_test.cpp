#include <gtest/gtest.h>

#include "model/backend/cuda/runtime/clocks.h"

namespace isobar::micro {
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

}  // namespace
}  // namespace isobar::micro
