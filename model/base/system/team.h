// The number of threads that share an op, for the CPU back end and for predictions of it.
//
//   threads_worth(30000, 4)     // 4: that is worth waking all of them
#pragma once
#include <bit>
#include <cstdint>

namespace isobar {

/// A pass over a few thousand elements ends before another thread wakes up.
inline constexpr int64_t kElementsPerThread = 8192;

/// One thread or all, nothing between: when a team is smaller than the one before, GCC's OpenMP ends the
/// threads left over (libgomp, team.c: "the extra threads should be exiting") and the next larger team starts
/// new ones, which costs more than the step of a small net. The time to wake a team grows with the logarithm
/// of its size.
inline int64_t threads_worth(int64_t elements, int64_t threads) {
  const int64_t rounds = std::bit_width(static_cast<uint64_t>(threads));
  return elements >= kElementsPerThread * rounds ? threads : 1;
}

}  // namespace isobar
