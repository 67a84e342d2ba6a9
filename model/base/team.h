// How many threads work is cut over: what the CPU back end does, and what predictions charge for.
//
//   threads_worth(30000, 4)     // 4: that is worth waking all of them
#pragma once
#include <bit>
#include <cstdint>

namespace isobar {

/// A pass over a few thousand elements is over before another thread wakes up.
inline constexpr int64_t kElementsPerThread = 8192;

/// One or all, nothing between: when a team is smaller than the one before, GCC's OpenMP ends the threads
/// that are left over (libgomp, team.c: "the extra threads should be exiting") and the next larger team
/// starts new ones. A step of 90 us of a small net took 290 us on four threads so. To wake a team takes
/// longer with the logarithm of its threads.
inline int64_t threads_worth(int64_t elements, int64_t threads) {
  const int64_t rounds = std::bit_width(static_cast<uint64_t>(threads));
  return elements >= kElementsPerThread * rounds ? threads : 1;
}

}  // namespace isobar
