// Matrix products against double precision, with the bound of a k-term sum in f32.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

// operands, result; the last is f32 as tf32
constexpr DType kTypes[6][2] = {{DType::f32, DType::f32},  {DType::bf16, DType::bf16},
                                {DType::bf16, DType::f32}, {DType::f16, DType::f16},
                                {DType::f16, DType::f32},  {DType::f32, DType::f32}};

// To 11 significant bits, ties to even
double as_tf32(double x) {
  int exponent;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

void check(Random& random, const Gemm& g) {
  const auto operand = [&](double x) { return g.tf32 ? as_tf32(x) : x; };
  const Buffer a = random.buffer(g.a, g.m * g.k), b = random.buffer(g.b, g.k * g.n);
  const Buffer bias = random.buffer(DType::f32, g.n), before = random.buffer(g.c, g.m * g.n);
  Buffer c(g.c, g.m * g.n), again(g.c, g.m * g.n);
  if (g.accumulate) std::memcpy(c.data(), before.data(), c.bytes());
  if (g.accumulate) std::memcpy(again.data(), before.data(), c.bytes());
  gemm(g, a.data(), b.data(), g.bias ? bias.f32() : nullptr, c.data());
  gemm(g, a.data(), b.data(), g.bias ? bias.f32() : nullptr, again.data());
  EXPECT_TRUE(c.same_bits(again));
  EXPECT_TRUE(c.intact());
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      const double x = g.bias ? bias[j] : 0, y = g.accumulate ? before[i * g.n + j] : 0;
      double want = x + y, size = std::abs(x) + std::abs(y);
      for (int64_t p = 0; p < g.k; ++p) {
        const double term = static_cast<double>(g.scale) * operand(a[g.trans_a ? p * g.m + i : i * g.k + p]) *
                            operand(b[g.trans_b ? j * g.k + p : p * g.n + j]);
        want += term;
        size += std::abs(term);
      }
      const double bound = kFloatRoundoff * size * (static_cast<double>(g.k) + 5) + rounding(g.c, want);
      ASSERT_TRUE(within(c[i * g.n + j], want, bound)) << "row " << i << " column " << j;
    }
}

TEST(Gemm, IsTheProductForEveryTransposeTypeAndEpilogue) {
  Random random;
  for (const Isa isa : isas())
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const int types : {0, 1, 2, 3, 4, 5})
          for (const int epilogue : {0, 1, 2, 3, 4, 6}) {
            Gemm g{.m = random.integer(1, 70),
                   .n = random.integer(1, 70),
                   .k = random.integer(1, 70),
                   .trans_a = trans_a,
                   .trans_b = trans_b,
                   .a = kTypes[types][0],
                   .b = kTypes[types][0],
                   .c = kTypes[types][1],
                   .bias = (epilogue & 1) != 0,
                   .accumulate = (epilogue & 2) != 0,
                   .tf32 = types == 5,
                   .scale = (epilogue & 4) != 0 ? static_cast<float>(random.integer(1, 40)) / 8 : 1};
            const Running running(isa, static_cast<int>(random.integer(1, 2)));
            SCOPED_TRACE("m " + std::to_string(g.m) + " n " + std::to_string(g.n) + " k " +
                         std::to_string(g.k) + " ta " + std::to_string(trans_a) + " tb " +
                         std::to_string(trans_b) + " types " + std::to_string(types) + " epilogue " +
                         std::to_string(epilogue));
            check(random, g);
            if (HasFatalFailure()) return;
            EXPECT_GE(gemm_workspace(g), 0);
          }
}

// Every k to beyond two tiles: AMX kernels treat each remainder separately.
TEST(Gemm, IsTheProductForEveryNumberOfTerms) {
  Random random;
  for (const DType t : {DType::f32, DType::bf16})
    for (int64_t k = 1; k <= 200; ++k)
      for (const int64_t size : {20, 70}) {
        const Running running(best_isa(), static_cast<int>(random.integer(1, 2)));
        const Gemm g{.m = random.integer(1, size),
                     .n = random.integer(1, size),
                     .k = k,
                     .trans_a = random.coin(),
                     .trans_b = random.coin(),
                     .a = t,
                     .b = t,
                     .c = random.coin() ? t : DType::f32,
                     .bias = random.coin()};
        SCOPED_TRACE("m " + std::to_string(g.m) + " n " + std::to_string(g.n) + " k " + std::to_string(k));
        check(random, g);
        if (HasFatalFailure()) return;
      }
}

// With enough rows, layers of small nets have their own kernel; a row's bits depend neither on the other rows
// nor on threads.
TEST(Gemm, LinearLayersOfSmallNets) {
  Random random;
  for (const Isa isa : isas())
    for (int i = 0; i < 12; ++i) {
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Gemm g{.m = random.integer(64, 400),
                   .n = 16 * random.integer(1, 12),
                   .k = random.integer(1, 130),
                   .trans_b = true,
                   .a = DType::f32,
                   .b = DType::f32,
                   .c = DType::f32,
                   .bias = true};
      SCOPED_TRACE("m " + std::to_string(g.m) + " n " + std::to_string(g.n) + " k " + std::to_string(g.k));
      check(random, g);
      if (HasFatalFailure()) return;
    }
}

TEST(Gemm, RowsOfASmallLayerDoNotKnowHowManyTheyAre) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  Random random;
  for (const int64_t k : {14, 64, 128}) {
    const int64_t n = 64, most = 1000;
    const Buffer a = random.buffer(DType::f32, most * k), b = random.buffer(DType::f32, n * k),
                 bias = random.buffer(DType::f32, n);
    Buffer whole(DType::f32, most * n), part(DType::f32, most * n);
    const auto rows = [&](int threads, int64_t first, int64_t count, Buffer& c) {
      const Running running(best_isa(), threads);
      gemm({.m = count,
            .n = n,
            .k = k,
            .trans_b = true,
            .a = DType::f32,
            .b = DType::f32,
            .c = DType::f32,
            .bias = true},
           a.f32() + first * k, b.data(), bias.f32(), c.f32() + first * n);
    };
    rows(1, 0, most, whole);
    const int64_t cut = random.integer(64, most - 64);
    rows(2, 0, cut, part);
    rows(1, cut, most - cut, part);
    EXPECT_TRUE(whole.same_bits(part)) << k << " " << cut;
  }
}

// In large products each thread computes a block of C: of rows where these are more, else of columns.
TEST(Gemm, BlocksOfEachThread) {
  Random random;
  for (const Isa isa : isas())
    for (const auto& types : kTypes)
      for (const int side : {0, 1, 2})  // tall, wide, on four threads both
        for (const int epilogue : {0, 1, 2, 4}) {
          const Running running(isa, side == 2 ? 4 : 2);
          const auto extent = [&](bool large) {
            return large ? random.integer(128, 300) : random.integer(64, 127);
          };
          const Gemm g{.m = extent(side != 1),
                       .n = extent(side != 0),
                       .k = random.integer(100, 130),
                       .trans_a = random.coin(),
                       .trans_b = random.coin(),
                       .a = types[0],
                       .b = types[0],
                       .c = types[1],
                       .bias = epilogue == 1,
                       .accumulate = epilogue == 2,
                       .tf32 = &types == &kTypes[5],
                       .scale = epilogue == 4 ? 0.375f : 1};
          SCOPED_TRACE("m " + std::to_string(g.m) + " n " + std::to_string(g.n) + " k " +
                       std::to_string(g.k) + " ta " + std::to_string(g.trans_a) + " tb " +
                       std::to_string(g.trans_b));
          if (&types == &kTypes[0] && g.accumulate)
            EXPECT_NE(gemm_kernel(g).find("each thread's block"), std::string::npos) << gemm_kernel(g);
          check(random, g);
          if (HasFatalFailure()) return;
        }
}

TEST(Gemm, LargerProductsOnOneAndTwoThreads) {
  Random random;
  for (const int threads : {1, 2})
    for (const DType t : kActs) {
      const Running running(best_isa(), threads);
      check(random, {.m = 301,
                     .n = 384,
                     .k = 192,
                     .trans_a = false,
                     .trans_b = true,
                     .a = t,
                     .b = t,
                     .c = t,
                     .bias = true});
      check(random, {.m = 192,
                     .n = 256,
                     .k = 403,
                     .trans_a = true,
                     .trans_b = false,
                     .a = t,
                     .b = t,
                     .c = DType::f32,
                     .accumulate = true});
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace isobar::cpu::testing
