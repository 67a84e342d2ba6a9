#include "model/data/statistics/normalise.h"

#include <bit>
#include <cmath>

namespace isobar::data {

namespace {

#define ISOBAR_ALWAYS_INLINE inline __attribute__((always_inline))

template <bool kSwapped, bool kScale, bool kFill>
ISOBAR_ALWAYS_INLINE void finish_one(float* x, const Finish& how, float& zero, uint32_t& filled) {
  float v = *x;
  if constexpr (kSwapped) v = std::bit_cast<float>(__builtin_bswap32(std::bit_cast<uint32_t>(v)));
  if constexpr (kScale) {
    *x = (v - how.mean) / how.std;
  } else if constexpr (kSwapped) {
    *x = v;
  }
  zero += v * 0.0f;  // NaN unless v is finite
  if constexpr (kFill) filled |= static_cast<uint32_t>(v == how.fill);
}

template <bool kSwapped, bool kScale, bool kFill>
ISOBAR_ALWAYS_INLINE Finished finish_all(float* x, int64_t n, const Finish& of_caller) {
  const Finish how = of_caller;      // which x cannot alias
  constexpr int64_t kTogether = 64;  // independent sums in several registers, to hide latency
  float zeros[kTogether] = {}, zero = 0;
  uint32_t fills[kTogether] = {}, filled = 0;
  int64_t i = 0;
  for (; i + kTogether <= n; i += kTogether)
    for (int64_t k = 0; k < kTogether; ++k)
      finish_one<kSwapped, kScale, kFill>(x + i + k, how, zeros[k], fills[k]);
  for (; i < n; ++i) finish_one<kSwapped, kScale, kFill>(x + i, how, zero, filled);
  for (const float z : zeros) zero += z;
  for (const uint32_t f : fills) filled |= f;
  return {zero == 0, filled != 0};
}

template <bool kSwapped, bool kScale>
ISOBAR_ALWAYS_INLINE Finished finish_looking(float* x, int64_t n, const Finish& how) {
  return std::isnan(how.fill) ? finish_all<kSwapped, kScale, false>(x, n, how)
                              : finish_all<kSwapped, kScale, true>(x, n, how);
}

ISOBAR_ALWAYS_INLINE Finished finish_as(float* x, int64_t n, const Finish& how) {
  if (how.swapped)
    return how.scale ? finish_looking<true, true>(x, n, how) : finish_looking<true, false>(x, n, how);
  return how.scale ? finish_looking<false, true>(x, n, how) : finish_looking<false, false>(x, n, how);
}

// The same code compiled for wider vectors. Not by target_clones, whose resolvers run before sanitizers are
// ready.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) Finished finish_wide(float* x, int64_t n, const Finish& how) {
  return finish_as(x, n, how);
}
bool has_wide() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
}
#else
Finished finish_wide(float* x, int64_t n, const Finish& how) {
  return finish_as(x, n, how);
}
bool has_wide() {
  return false;
}
#endif

}  // namespace

Finished finish(float* x, int64_t n, const Finish& how) {
  return has_wide() ? finish_wide(x, n, how) : finish_as(x, n, how);
}

}  // namespace isobar::data
