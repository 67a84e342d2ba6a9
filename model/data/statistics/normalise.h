// One pass over the values of a sample with the CPU's widest vectors: swaps bytes of the other endianness,
// normalises, and detects values that are not finite.
//
//   if (!finish(x, n, {.scale = true, .mean = 280, .std = 12})) …   // x = (x - mean) / std, rounded
//                                                                   // alike on every CPU
#pragma once
#include <cstdint>
#include <limits>

namespace isobar::data {

struct Finish {
  bool swapped = false;  // bytes are in the other endianness
  bool scale = false;    // to (x - mean) / std
  float mean = 0, std = 1;
  float fill = std::numeric_limits<float>::quiet_NaN();  // value to search for; NaN: none
};

struct Finished {  // of the values before scaling
  bool finite;     // all are
  bool filled;     // one is `fill`
};
Finished finish(float* x, int64_t n, const Finish& how);

}  // namespace isobar::data
