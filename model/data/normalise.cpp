#include "model/data/normalise.h"

#include <algorithm>
#include <bit>

namespace isobar {

namespace {

#define ISOBAR_ALWAYS_INLINE inline __attribute__((always_inline))

// Without its sign a float is the larger, the larger its bits are; infinity and NaN begin here.
constexpr uint32_t kInfinite = 0x7f800000u << 1;

ISOBAR_ALWAYS_INLINE uint32_t size_of_bits(float x) {
  return std::bit_cast<uint32_t>(x) << 1;
}

ISOBAR_ALWAYS_INLINE bool normalise_all(float* x, int64_t n, float mean, float std) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    most = std::max(most, size_of_bits(x[i]));
    x[i] = (x[i] - mean) / std;
  }
  return most < kInfinite;
}

ISOBAR_ALWAYS_INLINE bool all_finite(const float* x, int64_t n) {
  constexpr int64_t kTogether = 64;  // several registers of maxima, none of which waits for another
  uint32_t most[kTogether] = {}, rest = 0;
  int64_t i = 0;
  for (; i + kTogether <= n; i += kTogether)
    for (int64_t k = 0; k < kTogether; ++k) most[k] = std::max(most[k], size_of_bits(x[i + k]));
  for (; i < n; ++i) rest = std::max(rest, size_of_bits(x[i]));
  for (const uint32_t m : most) rest = std::max(rest, m);
  return rest < kInfinite;
}

// The same lines compiled for wider vectors. Not by target_clones: its resolvers run before sanitizers are
// ready.
#if defined(__x86_64__)
__attribute__((target("avx2"))) bool normalise_wide(float* x, int64_t n, float mean, float std) {
  return normalise_all(x, n, mean, std);
}
__attribute__((target("avx2"))) bool finite_wide(const float* x, int64_t n) {
  return all_finite(x, n);
}
bool has_wide() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#else
bool normalise_wide(float* x, int64_t n, float mean, float std) {
  return normalise_all(x, n, mean, std);
}
bool finite_wide(const float* x, int64_t n) {
  return all_finite(x, n);
}
bool has_wide() {
  return false;
}
#endif

}  // namespace

bool normalise(float* x, int64_t n, float mean, float std) {
  return has_wide() ? normalise_wide(x, n, mean, std) : normalise_all(x, n, mean, std);
}

bool are_finite(const float* x, int64_t n) {
  return has_wide() ? finite_wide(x, n) : all_finite(x, n);
}

}  // namespace isobar
