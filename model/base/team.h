// How many threads work is cut over: what the CPU back end does, and what predictions charge for.
//
//   threads_worth(20000, 8)     // 2: of the 8 that there are
#pragma once
#include <algorithm>
#include <cstdint>

namespace isobar {

/// A pass over a few thousand elements is over before another thread wakes up.
inline constexpr int64_t kElementsPerThread = 8192;

inline int64_t threads_worth(int64_t elements, int64_t threads) {
  return std::clamp<int64_t>(elements / kElementsPerThread, 1, threads);
}

}  // namespace isobar
