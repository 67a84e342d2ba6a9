// The one pass over numbers as they were read that every sample goes through, with the widest vectors that
// the CPU has: their bytes turned round (a file of the other endianness), normalised, and looked at for what
// is not finite.
//
//   if (!finish(x, n, {.scale = true, .mean = 280, .std = 12})) …   // x = (x - mean) / std, as IEEE 754
//   rounds
//                                                                   // it, on every CPU
#pragma once
#include <cstdint>
#include <limits>

namespace isobar {

struct Finish {
  bool swapped = false;  // bytes are in the other order
  bool scale = false;    // to (x - mean) / std
  float mean = 0, std = 1;
  float fill = std::numeric_limits<float>::quiet_NaN();  // what is looked for, as well; NaN: nothing
};

struct Finished {  // before they were scaled
  bool finite;     // all of them
  bool filled;     // one of them was `fill`
};
Finished finish(float* x, int64_t n, const Finish& how);

}  // namespace isobar
