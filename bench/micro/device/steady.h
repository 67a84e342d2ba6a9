// Keeps a chip under load until its clock has settled. At its power limit a card runs large products 7 to 10
// % slower than in the first second, so cold timings are not those of a training.
//
//   SteadyClock steady;
//   steady.settle(piece);     // piece(): runs some of the load that will be timed, and reads the clock
//   meanwhile
//
// Time is that of the pieces, so that it can be tested without a device.
#pragma once
#include <functional>
#include <optional>

#include "model/backend/cuda/runtime/clocks.h"

namespace isobar::micro {

struct LoadPiece {
  double seconds = 0;                // that it ran
  std::optional<ClockState> during;  // nullopt: the clock cannot be read
};

class SteadyClock {
 public:
  using Piece = std::function<LoadPiece()>;
  /// Runs pieces until the clock's mean is that of the stretch before, for a second at most; two seconds the
  /// first time, in which a cold chip warms up. Returns whether it settled: false too if it cannot be read.
  bool settle(const Piece& piece);
  /// Seconds of load so far.
  double loaded() const { return loaded_; }

 private:
  double loaded_ = 0;
};

}  // namespace isobar::micro
