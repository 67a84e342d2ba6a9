#include "bench/micro/device/steady.h"

#include <cmath>

namespace isobar::micro {
namespace {

constexpr double kStretch = 0.2;       // seconds over which the clock is averaged
constexpr double kWithin = 0.015;      // of the clock, whose steps are 15 MHz
constexpr double kWarmUp = 2;          // seconds of load before the first result
constexpr double kLongest = 1;         // seconds of one settling after that
constexpr double kWithoutClock = 0.4;  // seconds of load where the clock cannot be read

struct Stretch {
  double seconds = 0, mhz_seconds = 0;
  double mhz() const { return mhz_seconds / seconds; }
};

}  // namespace

bool SteadyClock::settle(const Piece& piece) {
  Stretch before, now;
  bool same = false;  // the clock of the last two stretches
  for (double ran = 0; ran < kLongest || loaded_ < kWarmUp;) {
    const LoadPiece p = piece();
    ran += p.seconds;
    loaded_ += p.seconds;
    if (!p.during) {
      if (ran >= kWithoutClock && loaded_ >= kWarmUp) return false;
      continue;
    }
    now.seconds += p.seconds;
    now.mhz_seconds += p.seconds * p.during->mhz;
    if (now.seconds < kStretch) continue;
    same = before.seconds > 0 && std::abs(now.mhz() / before.mhz() - 1) < kWithin;
    if (same && loaded_ >= kWarmUp) return true;
    before = now;
    now = {};
  }
  return same;
}

}  // namespace isobar::micro
