#include "model/base/rng.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace isobar {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t index) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
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
