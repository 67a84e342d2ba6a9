// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11). A value depends on (seed, stream,
// index) alone, so initialisation and shuffling are the same for every layout, worker count and resume point.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace isobar {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t index);

/// Uniform in [0, 1), 24 bits.
float uniform(uint64_t seed, uint64_t stream, uint64_t index);
/// Standard normal (Box-Muller).
float normal(uint64_t seed, uint64_t stream, uint64_t index);
/// A permutation of 0 … n-1 (Fisher-Yates).
std::vector<int64_t> permutation(int64_t n, uint64_t seed, uint64_t stream);

}  // namespace isobar
