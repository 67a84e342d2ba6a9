// A field's numbers less their mean, over their deviation, and whether all of them were finite: the two
// passes over what is read from disk that every sample goes through, with the widest vectors that the CPU
// has.
//
//   if (!normalise(x, n, mean, std)) …          // x = (x - mean) / std, as IEEE 754 rounds it, on every CPU
//   if (!are_finite(x, n)) …
#pragma once
#include <cstdint>

namespace isobar {

bool normalise(float* x, int64_t n, float mean, float std);
bool are_finite(const float* x, int64_t n);

}  // namespace isobar
