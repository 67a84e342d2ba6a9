// What each kind of net says of itself beside its keys: a net_specs/*.cpp has its rows, the checks that its
// keys need together, and its rough size.
#pragma once
#include "model/base/key_row.h"

namespace isobar {

struct SpecCheck;  // spec_check.h

constexpr int64_t kMostSize = 1 << 17;
constexpr Allowed kNetSize = from_to(1, kMostSize);
constexpr Allowed kGridSpacing = within("[]", 1e-4, 90, "give the grid's step in degrees, e.g. 0.25");

/// Numbers of a net, roughly and in floating point: whatever passes can be counted in 64 bits.
struct RoughSize {
  double weights = 0;
  double sample = 0;  // activations of one sample
};

}  // namespace isobar
