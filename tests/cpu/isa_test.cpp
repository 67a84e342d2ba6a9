// The choice of instruction set and how it is reported.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

TEST(Isa, ReportsEmulationWhereverBf16ProductsAreNotNative) {
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    EXPECT_EQ(current_isa(), isa);
    const std::string mode = bf16_mode();
    if (isa >= Isa::avx512_bf16)
      EXPECT_TRUE(mode == "amx" || mode == "avx512_bf16") << mode;
    else
      EXPECT_EQ(mode, "emulated");
    EXPECT_STREQ(f16_mode(), "emulated");
    EXPECT_STREQ(tf32_mode(), "emulated");
  }
}

TEST(Isa, RefusesMoreThanTheMachineHas) {
  if (best_isa() == Isa::amx) GTEST_SKIP() << "this machine has everything";
  EXPECT_THROW(use_isa(Isa::amx), std::invalid_argument);
}

}  // namespace
}  // namespace isobar::cpu::testing
