// Random numbers against the published vectors of Random123, and against the laws they claim to follow.
#include "model/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "model/base/dtype.h"

namespace isobar {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Philox, KnownAnswers) {  // Random123, kat_vectors: philox4x32 10
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 (digits of pi)
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsUniformAndNormalIsNormal) {
  const int n = 200000;
  const uint64_t seed = std::random_device{}();
  double sum = 0, squares = 0, fourth = 0, uniform_sum = 0;
  std::array<int, 16> bins{};
  for (int i = 0; i < n; ++i) {
    const double u = uniform(seed, 1, i), z = normal(seed, 2, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ASSERT_TRUE(std::isfinite(z));
    ++bins[static_cast<int>(u * 16)];
    uniform_sum += u;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  const double root = std::sqrt(static_cast<double>(n));  // all bounds: six standard errors
  EXPECT_NEAR(uniform_sum / n, 0.5, 6 * std::sqrt(1.0 / 12) / root) << seed;
  EXPECT_NEAR(sum / n, 0, 6 / root) << seed;
  EXPECT_NEAR(squares / n, 1, 6 * std::sqrt(2.0) / root) << seed;
  EXPECT_NEAR(fourth / n, 3, 6 * std::sqrt(96.0) / root) << seed;
  double chi2 = 0;
  for (int b : bins) chi2 += (b - n / 16.0) * (b - n / 16.0) / (n / 16.0);
  EXPECT_LT(chi2, 60) << seed;  // 15 degrees of freedom: exceeded once in 10^6
}

TEST(Philox, PermutationsArePermutationsAndDifferByStream) {
  for (int64_t n : {0, 1, 2, 7, 100, 1001}) {
    const auto p = permutation(n, 5, 6);
    ASSERT_EQ(std::set<int64_t>(p.begin(), p.end()).size(), static_cast<size_t>(n));
    if (n > 0) {
      EXPECT_EQ(*std::min_element(p.begin(), p.end()), 0);
      EXPECT_EQ(*std::max_element(p.begin(), p.end()), n - 1);
    }
    EXPECT_EQ(p, permutation(n, 5, 6));
    if (n >= 100) {
      EXPECT_NE(p, permutation(n, 5, 7));
      EXPECT_NE(p, permutation(n, 6, 6));
    }
  }
}

TEST(Philox, PermutationsAreFair) {
  std::array<std::array<int, 6>, 6> at{};  // how often value v stands at place i
  const int n = 12000;
  for (int s = 0; s < n; ++s) {
    const auto p = permutation(6, 11, s);
    for (int i = 0; i < 6; ++i) ++at[i][p[i]];
  }
  for (const auto& row : at)
    for (int count : row) EXPECT_NEAR(count, n / 6.0, 6 * std::sqrt(n / 6.0 * 5 / 6));
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f)), 1.0f);             // half way, down to even
  EXPECT_EQ(to_float(to_bf16(1.0f + 3 * 0x1p-8f)), 1 + 0x1p-6f);  // half way, up to even
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f + 0x1p-20f)), 1 + 0x1p-7f);
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38f))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));  // not rounded to infinity
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 100000; ++i) {  // the nearest of the two neighbours
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(x) || std::abs(x) > 3e38f) continue;
    const float down = to_float(bf16{static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16)});
    const float up = to_float(bf16{static_cast<uint16_t>((std::bit_cast<uint32_t>(x) >> 16) + 1)});
    const double error = std::abs(static_cast<double>(to_float(to_bf16(x))) - x);
    ASSERT_LE(error,
              std::min(std::abs(static_cast<double>(down) - x), std::abs(static_cast<double>(up) - x)));
  }
}

}  // namespace
}  // namespace isobar
