// Half precision and tf32: conversions against exact arithmetic, on every instruction set, and the effects of
// a narrow range on gradients.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

// The value of a half, by definition
double value_of(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

// The nearest half of a finite or infinite x, ties to even, as nearbyint rounds.
double nearest(double x) {
  const double size = std::abs(x);
  if (size >= 65520) return std::copysign(INFINITY, x);  // halfway to 65536, which f16 cannot hold
  int exponent;
  std::frexp(x, &exponent);
  const int last = std::max(exponent - 11, -24);
  return std::copysign(std::ldexp(std::nearbyint(std::ldexp(size, -last)), last), x);
}

TEST(F16, EveryHalfWidensExactlyAndComesBack) {
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    const int64_t n = 1 << 16;
    Buffer halves(DType::f16, n), wide(DType::f32, n), back(DType::f16, n);
    for (int64_t i = 0; i < n; ++i) static_cast<f16*>(halves.data())[i].bits = static_cast<uint16_t>(i);
    cast(n, DType::f16, DType::f32, halves.data(), wide.data());
    cast(n, DType::f32, DType::f16, wide.data(), back.data());
    for (int64_t i = 0; i < n; ++i) {
      const double want = value_of(static_cast<uint16_t>(i));
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(back[i])) << std::hex << i;
        continue;
      }
      ASSERT_EQ(wide[i], want) << std::hex << i;
      ASSERT_EQ(std::signbit(wide[i]), std::signbit(want)) << std::hex << i;
      ASSERT_EQ(static_cast<const f16*>(back.data())[i].bits, i);
    }
  }
}

TEST(F16, RoundsToNearestEvenOverflowsToInfinityAndKeepsSubnormals) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    const int64_t n = 60'001;
    Buffer x(DType::f32, n), half(DType::f16, n);
    for (int64_t i = 0; i < n; ++i)  // all relevant exponents, and ties
      x.set(i, random.coin() ? std::ldexp(random.normal(), static_cast<int>(random.integer(-30, 18)))
                             : (value_of(static_cast<uint16_t>(i % 31744)) +
                                value_of(static_cast<uint16_t>(i % 31744 + (i % 31744 < 31743 ? 1 : 0)))) /
                                   (random.coin() ? 2 : -2));
    const double special[] = {65504,   65519.99,       65520,    -65520,  1e30,        INFINITY, 0x1p-24,
                              0x1p-25, 0x1.000002p-25, -0x1p-26, 0x1p-14, 0x1.ffcp-15, 0.0,      -0.0};
    for (size_t i = 0; i < std::size(special); ++i) x.set(static_cast<int64_t>(i), special[i]);
    cast(n, DType::f32, DType::f16, x.data(), half.data());
    EXPECT_TRUE(half.intact());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(half[i], nearest(x[i])) << "of " << x[i];
      ASSERT_EQ(static_cast<const f16*>(half.data())[i].bits, to_f16(x.f32()[i]).bits);
    }
    EXPECT_EQ(half[0], 65504);
    EXPECT_EQ(half[1], 65504);
    EXPECT_EQ(half[2], INFINITY);
    EXPECT_EQ(half[6], 0x1p-24);
    EXPECT_EQ(half[7], 0);  // tie between 0 and the smallest: to even
    EXPECT_EQ(half[8], 0x1p-24);
  }
}

TEST(Tf32, KeepsElevenSignificantBitsTiesToEven) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    const int64_t n = 40'003;
    Buffer x(DType::f32, n), y(DType::f32, n);
    for (int64_t i = 0; i < n; ++i)
      x.set(i, std::ldexp(random.coin() ? random.normal() : static_cast<double>(random.integer(2048, 4095)),
                          static_cast<int>(random.integer(-100, 100))));  // 12 bits: half of them are ties
    x.set(0, NAN);
    x.set(1, INFINITY);
    x.set(2, 3.4028234e38);  // rounds up, out of range
    x.f32()[3] = std::bit_cast<float>(0x7f800001u);
    round_tf32(n, x.f32(), y.f32());
    EXPECT_TRUE(y.intact());
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[3]));
    EXPECT_EQ(y[1], INFINITY);
    EXPECT_EQ(y[2], INFINITY);
    for (int64_t i = 4; i < n; ++i) {
      int exponent;
      const double mantissa = std::frexp(x[i], &exponent);
      ASSERT_EQ(y[i], std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11));
      ASSERT_EQ(y.f32()[i], isobar::round_tf32(x.f32()[i]));
    }
  }
}

// The purpose of loss scaling: gradients below 2^-25 are lost unless scaled by 2^15; too large a scale gives
// infinities, which the gradients' squared norm detects.
TEST(F16, SmallGradientsVanishAndScaledOnesSurviveOrOverflow) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    const int64_t rows = 33, in = 40, out = 24;
    const Buffer u = random.buffer(DType::f16, rows * out);
    const Buffer x = random.buffer(DType::f16, rows * in);
    const auto squared_norm = [&](double scale) {
      Buffer dy(DType::f16, rows * out), du(DType::f16, rows * out), dw(DType::f32, out * in);
      for (int64_t i = 0; i < dy.size(); ++i) dy.set(i, scale * (1 + 0.1 * std::abs(x[i % x.size()])));
      activation_backward(Activation::gelu, rows, out, DType::f16, u.data(), dy.data(), du.data(), nullptr,
                          false);
      const Gemm g{
          .m = out, .n = in, .k = rows, .trans_a = true, .a = DType::f16, .b = DType::f16, .c = DType::f32};
      gemm(g, du.data(), x.data(), nullptr, dw.data());
      return squared_sum(dw.size(), dw.f32());
    };
    EXPECT_EQ(squared_norm(0x1p-27), 0);
    const double norm = squared_norm(0x1p-12);
    EXPECT_GT(norm, 0);
    EXPECT_TRUE(within(squared_norm(1) * 0x1p-24, norm, 0.01 * norm));
    EXPECT_FALSE(std::isfinite(squared_norm(0x1p16)));
  }
}

// The sum leaves f16's range only when stored as f16.
TEST(F16, AProductOverflowsWhereItIsStored) {
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    const int64_t k = 64;
    Buffer a(DType::f16, k), b(DType::f16, k), narrow(DType::f16, 1), wide(DType::f32, 1);
    for (int64_t i = 0; i < k; ++i) a.set(i, 40), b.set(i, i % 2 == 0 ? 40 : -1);
    Gemm g{.m = 1, .n = 1, .k = k, .trans_b = true, .a = DType::f16, .b = DType::f16, .c = DType::f32};
    gemm(g, a.data(), b.data(), nullptr, wide.data());
    EXPECT_EQ(wide[0], 32 * 1600.0 - 32 * 40.0);
    for (int64_t i = 0; i < k; ++i) b.set(i, 40);
    gemm(g, a.data(), b.data(), nullptr, wide.data());
    EXPECT_EQ(wide[0], 64 * 1600.0);
    g.c = DType::f16;
    gemm(g, a.data(), b.data(), nullptr, narrow.data());
    EXPECT_EQ(narrow[0], INFINITY);
  }
}

// tf32 attention is f32 attention of rounded operands, so rounding the inputs beforehand changes nothing.
TEST(Tf32, AttentionRoundsItsInputs) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    Attention a{.batch = 2, .heads = 2, .kv_heads = 2, .tq = 70, .tk = 110, .d = 20, .scale = 0.2f};
    a.act = DType::f32;
    a.ld_q = a.ld_kv = a.ld_o = 40;
    a.tf32 = true;
    const Buffer q = random.buffer(DType::f32, 140 * 40), k = random.buffer(DType::f32, 220 * 40);
    const Buffer v = random.buffer(DType::f32, 220 * 40);
    Buffer work(DType::f32, attention_workspace(a, false, 2) / 4);
    const auto run = [&](bool rounded, bool tf32) {
      Buffer o(DType::f32, 140 * 40), lse(DType::f32, 2 * 2 * 70);
      Buffer in[3] = {Buffer(DType::f32, q.size()), Buffer(DType::f32, k.size()),
                      Buffer(DType::f32, v.size())};
      const Buffer* from[3] = {&q, &k, &v};
      for (int t = 0; t < 3; ++t)
        for (int64_t i = 0; i < in[t].size(); ++i)
          in[t].f32()[i] = rounded ? isobar::round_tf32(from[t]->f32()[i]) : from[t]->f32()[i];
      Attention as = a;
      as.tf32 = tf32;
      attention_forward(as, in[0].data(), in[1].data(), in[2].data(), o.data(), lse.f32(), work.data());
      return o;
    };
    const Buffer o = run(false, true);
    EXPECT_TRUE(o.same_bits(run(true, true)));
    EXPECT_FALSE(o.same_bits(run(false, false)));
    EXPECT_FALSE(o.same_bits(run(true, false)));  // probabilities are also rounded
  }
}

}  // namespace
}  // namespace isobar::cpu::testing
