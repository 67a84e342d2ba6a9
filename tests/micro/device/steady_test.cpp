#include "bench/micro/device/timer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace isobar::micro {
namespace {

/// A card whose clock nears the one of its load, in steps of 15 MHz.
class Card {
 public:
  SteadyClock::Piece load(double mhz) {
    return [this, mhz] {
      mhz_ = mhz + (mhz_ - mhz) * std::exp(-kPiece / 0.2);
      return LoadPiece{kPiece, ClockState{.mhz = shown(), .max_mhz = 1980}};
    };
  }
  unsigned shown() const { return 15 * static_cast<unsigned>(std::lround(mhz_ / 15)); }

 private:
  static constexpr double kPiece = 0.02;
  double mhz_ = 1980;
};

TEST(SteadyClock, WaitsUntilTheClockIsThatOfTheLoad) {
  Card card;
  SteadyClock steady;
  EXPECT_TRUE(steady.settle(card.load(1350)));
  EXPECT_NEAR(card.shown(), 1350, 0.02 * 1350);
  EXPECT_GE(steady.loaded(), 2) << "a cold card warms up";
  const double warm = steady.loaded();
  EXPECT_TRUE(steady.settle(card.load(1350)));
  EXPECT_NEAR(steady.loaded() - warm, 0.4, 0.05) << "it is warm";
  EXPECT_TRUE(steady.settle(card.load(1755)));
  EXPECT_NEAR(card.shown(), 1755, 0.03 * 1755) << "a lighter load";
  EXPECT_LT(steady.loaded() - warm, 1.5);
}

TEST(SteadyClock, SaysThatAClockNeverSettled) {
  SteadyClock steady;
  int pieces = 0;
  EXPECT_FALSE(steady.settle([&] {
    const bool high = ++pieces / 10 % 2 == 0;
    return LoadPiece{0.02, ClockState{.mhz = high ? 1900u : 1300u, .max_mhz = 1980}};
  }));
  EXPECT_NEAR(steady.loaded(), 2, 0.05);
}

TEST(SteadyClock, LoadsACardWhoseClockCannotBeRead) {
  SteadyClock steady;
  const auto piece = [] { return LoadPiece{0.02, std::nullopt}; };
  EXPECT_FALSE(steady.settle(piece));
  EXPECT_NEAR(steady.loaded(), 2, 0.05);
  EXPECT_FALSE(steady.settle(piece));
  EXPECT_NEAR(steady.loaded(), 2.4, 0.05);
}

}  // namespace
}  // namespace isobar::micro
