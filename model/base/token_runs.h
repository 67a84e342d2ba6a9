// The tokens of each sample that a rank of context parallelism has, in its order: one run of neighbours, or
// two where a ring zig-zags over a causal sample.
#pragma once
#include <cstdint>

#include "model/base/system/host_device.h"

namespace isobar {

struct TokenRuns {
  int64_t first = 0, count = 0;  // of the first run: its first token, and how many
  int64_t then = 0, more = 0;    // likewise of the second
  ISOBAR_HOST_DEVICE int64_t size() const { return count + more; }
  /// The place in the sample of the i-th token held.
  ISOBAR_HOST_DEVICE int64_t place(int64_t i) const { return i < count ? first + i : then + i - count; }
};

}  // namespace isobar
