// Text of numbers: printf into a string, and the digits that an interval supports.
#include "model/base/text/printed.h"

#include <gtest/gtest.h>

#include "model/base/text/rounded.h"

namespace isobar {
namespace {

TEST(Printed, IsAsLongAsItNeedsToBe) {
  EXPECT_EQ(printed("%d of %s, %.1f %%", 3, "four", 2.25), "3 of four, 2.2 %");
  const std::string longer(5000, 'x');
  EXPECT_EQ(printed("<%s>", longer.c_str()), "<" + longer + ">");
  EXPECT_EQ(printed("%s", ""), "");
}

// Particle Data Group: two digits of the half-width from 10 to 35, else one.
TEST(Rounded, KeepsTheDigitsThatTheIntervalSupports) {
  EXPECT_EQ(rounded({15.357, 11.626, 20.284}), "15");
  EXPECT_EQ(with_interval({15.357, 11.626, 20.284}), "15 (12 to 20)");
  EXPECT_EQ(with_interval({1.2345, 1.2245, 1.2445}), "1.235 (1.225 to 1.245)") << "half-width 0.010";
  EXPECT_EQ(with_interval({1.2345, 1.1945, 1.2745}), "1.23 (1.19 to 1.27)") << "half-width 0.040";
  EXPECT_EQ(rounded(Known{123456, 120000, 127000}), "123500") << "half-width 3500";
  EXPECT_EQ(rounded_part(0, {2, 1, 3}), "0");
}

// Half-widths of 500 and 39: by them alone 27 and 3 were "0".
TEST(Rounded, WhatIsPositiveIsNeverZero) {
  EXPECT_EQ(with_interval({27.4, 0.63, 1042}), "30 (0.6 to 1000)");
  EXPECT_EQ(rounded({3.2, 0.1, 78}), "3");
  EXPECT_EQ(with_interval({3, 0, 78}), "0 (0 to 80)");
}

TEST(Rounded, AnInverseChangesTheEnds) {
  const Known k = Known{2, 1, 4}.inverse(8);
  EXPECT_DOUBLE_EQ(k.value, 4);
  EXPECT_DOUBLE_EQ(k.lower, 2);
  EXPECT_DOUBLE_EQ(k.upper, 8);
}

}  // namespace
}  // namespace isobar
