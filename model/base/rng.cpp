#include "model/base/rng.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "model/base/philox.h"

namespace isobar {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t index) {
  const PhiloxWords w = philox_words(seed, stream, index);
  return {w.x[0], w.x[1], w.x[2], w.x[3]};
}

float uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<float>(philox(seed, stream, index)[0] >> 8) * 0x1p-24f;
}

float normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto r = philox(seed, stream, index);
  const double u1 = (static_cast<double>(r[0]) + 0.5) * 0x1p-32;  // never 0
  const double u2 = static_cast<double>(r[1]) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2));
}

std::vector<int64_t> permutation(int64_t n, uint64_t seed, uint64_t stream) {
  std::vector<int64_t> p(n);
  std::iota(p.begin(), p.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) {
    const auto r = philox(seed, stream, i);
    const uint64_t wide = (uint64_t{r[0]} << 32) | r[1];
    std::swap(p[i], p[static_cast<int64_t>(wide % static_cast<uint64_t>(i + 1))]);
  }
  return p;
}

}  // namespace isobar
