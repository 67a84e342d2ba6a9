// Elementwise kernels, activations and column sums against double precision, copies against loops.
#include "tests/cpu/kernel_testing.h"
#include "tests/worst.h"

namespace isobar::cpu::testing {
namespace {

double phi(double u) {
  return 0.5 * std::erfc(-u / std::sqrt(2.0));
}
// PyTorch's gelu(approximate="tanh")
double tanh_phi(double u) {
  return 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
}
double logistic(double u) {
  return 1 / (1 + std::exp(-u));
}

double value(Activation f, double u) {
  switch (f) {
    case Activation::gelu:
      return u * phi(u);
    case Activation::gelu_tanh:
      return u * tanh_phi(u);
    case Activation::relu:
      return std::max(u, 0.0);
    case Activation::silu:
      return u * logistic(u);
    case Activation::tanh:
      return std::tanh(u);
  }
  return NAN;
}

double slope(Activation f, double u) {
  switch (f) {
    case Activation::gelu:
      return phi(u) + u * std::exp(-u * u / 2) / std::sqrt(2 * M_PI);
    case Activation::gelu_tanh: {
      const double p = tanh_phi(u);
      return p + 2 * u * p * (1 - p) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * u * u);
    }
    case Activation::relu:
      return u > 0 ? 1 : 0;
    case Activation::silu:
      return logistic(u) * (1 + u * (1 - logistic(u)));
    case Activation::tanh:
      return 1 - std::tanh(u) * std::tanh(u);
  }
  return NAN;
}

// bf16's exp2 is accurate to 4e-6.
double slack_of(DType act) {
  return act == DType::bf16 ? 2e-5 : 2e-6;
}

class Activations : public ::testing::TestWithParam<Activation> {};

TEST_P(Activations, AreTheirFormulasToAMillionth) {
  const Activation f = GetParam();
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Running running(isa, 2);
      const int64_t n = act == DType::f32 ? 400'001 : 40'001;
      Buffer u(act, n), g(act, n), one(act, n), du(act, n);
      for (int64_t i = 0; i < n; ++i) {
        u.set(i, 20.0 * (static_cast<double>(i) / static_cast<double>(n - 1) - 0.5));
        one.set(i, 1);
      }
      activation_forward(f, n, act, u.data(), g.data());
      activation_backward(f, 1, n, act, u.data(), one.data(), du.data(), nullptr, false);
      const double slack = act == DType::f32 ? 1e-6 : slack_of(act);
      for (int64_t i = 0; i < n; ++i) {
        const double want = value(f, u[i]), steep = slope(f, u[i]);
        ASSERT_TRUE(within(g[i], want, slack + rounding(act, want))) << "u = " << u[i];
        ASSERT_TRUE(within(du[i], steep, slack + rounding(act, steep))) << "u = " << u[i];
      }
    }
}

// Functions that are linear near 0 keep their relative precision: no cancellation.
TEST_P(Activations, KeepTheirDigitsNearZero) {
  const Activation f = GetParam();
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    const int64_t n = 2000;
    Buffer u(DType::f32, n), g(DType::f32, n);
    for (int64_t i = 0; i < n; ++i) u.set(i, (i % 2 == 0 ? 1 : -1) * std::pow(10, -6.0 * i / n));
    activation_forward(f, n, DType::f32, u.data(), g.data());
    for (int64_t i = 0; i < n; ++i) {
      const double want = value(f, u[i]);
      ASSERT_TRUE(within(g[i], want, 5e-7 * std::max(std::abs(want), 0.5 * std::abs(u[i]))))
          << "u = " << u[i];
    }
  }
}

template <int kDegree>
float by_segments(const SegmentTable<kDegree>& table, float a) {
  const auto s = static_cast<int>(std::nearbyint(a / kSegmentSpacing));
  const float x = a - kSegmentSpacing * static_cast<float>(s);
  float sum = 0;
  for (int k = kDegree; k >= 0; --k) sum = std::fma(sum, x, table.coefficients[k][s]);
  return sum;
}

struct TableErrors {
  double tail = 0, tail_near = 0, tail_far = 0, below = 0;  // relative up to a = 1 and to `far`
};
template <int kDegree>
TableErrors table_errors(float far) {
  TableErrors e;
  for (int i = 0; i <= 390'000; ++i) {
    const float a = static_cast<float>(i) * 2e-5f;
    const double truth = phi(-static_cast<double>(a));
    const double error = std::abs(static_cast<double>(by_segments(normal_tail_table<kDegree>(), a)) - truth);
    e.tail = worst(e.tail, error);
    if (a <= 1) e.tail_near = worst(e.tail_near, error / truth);
    if (a <= far) e.tail_far = worst(e.tail_far, error / truth);
    e.below = worst(e.below, std::abs(static_cast<double>(by_segments(gelu_slope_table<kDegree>(), a)) -
                                      slope(Activation::gelu, -static_cast<double>(a))));
  }
  return e;
}

TEST(GeluTables, AreTheirFunctionsEverywhere) {
  const TableErrors fine = table_errors<kFineDegree>(5), coarse = table_errors<kCoarseDegree>(4);
  EXPECT_LE(fine.tail, 5e-8);
  EXPECT_LE(fine.tail_near, 1.5e-7);
  EXPECT_LE(fine.tail_far, 1e-4);
  EXPECT_LE(fine.below, 2e-7);
  EXPECT_LE(coarse.tail, 1e-6);
  EXPECT_LE(coarse.tail_near, 5e-6);
  EXPECT_LE(coarse.tail_far, 4e-4);
  EXPECT_LE(coarse.below, 5e-6);
}

TEST_P(Activations, KeepTheirLimits) {
  const Activation f = GetParam();
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    Buffer u(DType::f32, 5), g(DType::f32, 5), one(DType::f32, 5), du(DType::f32, 5);
    const double values[5] = {0, 1e10, -1e10, 140, -140};
    for (int64_t i = 0; i < 5; ++i) u.set(i, values[i]), one.set(i, 1);
    activation_forward(f, 5, DType::f32, u.data(), g.data());
    activation_backward(f, 1, 5, DType::f32, u.data(), one.data(), du.data(), nullptr, false);
    for (int64_t i = 0; i < 5; ++i) {
      const double u0 = values[i], step = u0 > 0 ? 1 : 0;
      const bool bounded = f == Activation::tanh;
      EXPECT_EQ(g.f32()[i], static_cast<float>(!bounded ? std::max(0.0, u0)
                                               : u0 > 0 ? 1
                                               : u0 < 0 ? -1
                                                        : 0))
          << u0;
      if (i > 0) EXPECT_EQ(du.f32()[i], static_cast<float>(bounded ? 0 : step)) << u0;
    }
  }
}

TEST_P(Activations, BackwardAndItsColumnSumsForAnyShape) {
  const Activation f = GetParam();
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 10; ++round) {
      const DType act = random.act();
      const int64_t rows = random.integer(1, 90), cols = random.integer(1, 400), n = rows * cols;
      const bool accumulate = random.coin();
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Buffer u = random.buffer(act, n, 2), dg = random.buffer(act, n);
      Buffer g(act, n), du(act, n), du2(act, n), dbias(DType::f32, cols), dbias2(DType::f32, cols);
      const Buffer before = random.buffer(DType::f32, cols);
      if (accumulate)
        for (int64_t j = 0; j < cols; ++j) dbias.f32()[j] = dbias2.f32()[j] = before.f32()[j];
      activation_forward(f, n, act, u.data(), g.data());
      activation_backward(f, rows, cols, act, u.data(), dg.data(), du.data(), dbias.f32(), accumulate);
      std::memcpy(du2.data(), dg.data(), dg.bytes());  // in place
      activation_backward(f, rows, cols, act, u.data(), du2.data(), du2.data(), dbias2.f32(), accumulate);
      EXPECT_TRUE(du.same_bits(du2) && dbias.same_bits(dbias2));
      EXPECT_TRUE(du.intact() && dbias.intact() && g.intact());
      const double slack = slack_of(act);
      for (int64_t j = 0; j < cols; ++j) {
        double sum = accumulate ? before[j] : 0, size = std::abs(sum) + 1;
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t i = r * cols + j;
          const double want = dg[i] * slope(f, u[i]);
          ASSERT_TRUE(within(g[i], value(f, u[i]), slack + rounding(act, value(f, u[i]))));
          ASSERT_TRUE(within(du[i], want, slack * (1 + std::abs(dg[i])) + rounding(act, want)));
          sum += want;  // summed before rounding to bf16
          size += std::abs(want) + std::abs(dg[i]);
        }
        ASSERT_TRUE(within(dbias[j], sum, slack * size));
      }
    }
}

TEST_P(Activations, BackwardAgreesWithFiniteDifferences) {
  const Activation f = GetParam();
  Random random;
  const Buffer u = random.buffer(DType::f32, 100, 2), dg = random.buffer(DType::f32, 100);
  Buffer du(DType::f32, 100);
  activation_backward(f, 10, 10, DType::f32, u.data(), dg.data(), du.data(), nullptr, false);
  for (int64_t i = 0; i < 100; ++i) {
    const double h = 1e-5;
    if (f == Activation::relu && std::abs(u[i]) < h) continue;  // its kink
    const double steep = (value(f, u[i] + h) - value(f, u[i] - h)) / (2 * h);
    EXPECT_TRUE(within(du[i], dg[i] * steep, 2e-6 * (1 + std::abs(dg[i]))));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Activations, ::testing::ValuesIn(kFunctions),
                         [](const auto& f) { return std::string(name_of(f.param)); });

TEST(ColumnSum, AddsRowsOfEitherTypeAndIsRepeatable) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 10; ++round) {
      const DType t = random.act();
      const int64_t rows = random.integer(1, 700), cols = random.integer(1, 130);
      const bool accumulate = random.coin();
      const Running running(isa, static_cast<int>(random.integer(1, 3)));
      const Buffer x = random.buffer(t, rows * cols), before = random.buffer(DType::f32, cols);
      Buffer sum(DType::f32, cols), again(DType::f32, cols);
      if (accumulate) std::memcpy(sum.data(), before.data(), sum.bytes());
      if (accumulate) std::memcpy(again.data(), before.data(), sum.bytes());
      column_sum(rows, cols, t, x.data(), sum.f32(), accumulate);
      column_sum(rows, cols, t, x.data(), again.f32(), accumulate);
      EXPECT_TRUE(sum.same_bits(again) && sum.intact());
      for (int64_t j = 0; j < cols; ++j) {
        double want = accumulate ? before[j] : 0, size = 1;
        for (int64_t r = 0; r < rows; ++r) {
          want += x[r * cols + j];
          size += std::abs(x[r * cols + j]);
        }
        ASSERT_TRUE(within(sum[j], want, 20 * kFloatRoundoff * size));
      }
    }
}

TEST(PeriodSum, FoldsRowsOntoThePositionsTheyShare) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 20; ++round) {
      const bool accumulate = random.coin();
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const int64_t period = random.integer(1, 40), cols = random.integer(1, 60);
      const int64_t rows = random.integer(1, 4 * period);  // may be less than a period
      const int64_t row0 = random.one_of<int64_t>({0, random.integer(0, 3 * period)});
      const Buffer dx = random.buffer(DType::f32, rows * cols);
      const Buffer before = random.buffer(DType::f32, period * cols);
      Buffer sum(DType::f32, period * cols);
      if (accumulate) std::memcpy(sum.data(), before.data(), sum.bytes());
      period_sum(rows, cols, period, row0, dx.f32(), sum.f32(), accumulate);
      EXPECT_TRUE(sum.intact());
      std::vector<double> want(period * cols, 0.0);
      std::vector<bool> hit(period);
      if (accumulate)
        for (int64_t i = 0; i < period * cols; ++i) want[i] = before[i];
      for (int64_t r = 0; r < rows; ++r) {
        hit[(row0 + r) % period] = true;
        for (int64_t j = 0; j < cols; ++j) want[(row0 + r) % period * cols + j] += dx[r * cols + j];
      }
      for (int64_t i = 0; i < period * cols; ++i)
        ASSERT_TRUE(within(sum[i], want[i], hit[i / cols] ? 1e-5 : 0)) << "position " << i / cols;
    }
}

// Random strides of blocks of n elements, without overlap, in any order of axes, with gaps; returns the
// extent
int64_t random_strides(Random& random, const std::array<int64_t, 3>& extent, int64_t n,
                       std::array<int64_t, 3>& stride) {
  int order[3] = {0, 1, 2};
  for (int i = 2; i > 0; --i) std::swap(order[i], order[random.integer(0, i)]);
  int64_t room = n;
  for (const int d : order) {
    stride[d] = room + (random.coin() ? random.integer(1, 9) : 0);
    room = stride[d] * (extent[d] - 1) + room;
  }
  return room;
}

TEST(Copy, MovesBlocksBetweenStridesAndNothingElse) {
  Random random;
  for (int round = 0; round < 60; ++round) {
    const Running running(best_isa(), static_cast<int>(random.integer(1, 3)));
    Copy c{.n = random.one_of<int64_t>({1, random.integer(2, 70), random.integer(500, 30'000)}),
           .t = random.act()};
    for (int64_t& e : c.extent) e = random.integer(1, c.n > 70 ? 3 : 11);
    const int64_t from_room = random_strides(random, c.extent, c.n, c.from);
    const int64_t to_room = random_strides(random, c.extent, c.n, c.to);
    if (random.coin()) c.from[random.integer(0, 2)] = 0;  // broadcast
    const Buffer x = random.buffer(c.t, from_room);
    Buffer y(c.t, to_room), want(c.t, to_room);
    for (int64_t i = 0; i < c.extent[0]; ++i)
      for (int64_t j = 0; j < c.extent[1]; ++j)
        for (int64_t k = 0; k < c.extent[2]; ++k)
          for (int64_t e = 0; e < c.n; ++e)
            want.set(i * c.to[0] + j * c.to[1] + k * c.to[2] + e,
                     x[i * c.from[0] + j * c.from[1] + k * c.from[2] + e]);
    copy(c, x.data(), y.data());
    ASSERT_TRUE(y.intact());
    ASSERT_TRUE(y.same_bits(want)) << c.extent[0] << " x " << c.extent[1] << " x " << c.extent[2] << " x "
                                   << c.n;
  }
}

TEST(Cast, RoundsToNearestEvenAndBackExactly) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    const int64_t n = 50'003;
    Buffer x = random.buffer(DType::f32, n, 100), half(DType::bf16, n), back(DType::f32, n);
    // ties, both ways; limits; NaN
    const uint32_t special[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff,
                                0x7f800000, 0xff800000, 0x80000000};
    for (size_t i = 0; i < std::size(special); ++i) x.f32()[i] = std::bit_cast<float>(special[i]);
    x.f32()[7] = std::bit_cast<float>(0x7f800001u);
    x.f32()[n - 1] = std::bit_cast<float>(0xffffffffu);
    cast(n, DType::f32, DType::bf16, x.data(), half.data());
    cast(n, DType::bf16, DType::f32, half.data(), back.data());
    EXPECT_TRUE(half.intact() && back.intact());
    for (int64_t i = 0; i < n; ++i) {
      const bf16 got = static_cast<bf16*>(half.data())[i];
      if (std::isnan(x.f32()[i])) {
        ASSERT_TRUE(std::isnan(to_float(got)) && std::isnan(back[i]));
        continue;
      }
      ASSERT_EQ(got.bits, to_bf16(x.f32()[i]).bits) << "at " << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(back.f32()[i]), static_cast<uint32_t>(got.bits) << 16);
    }
  }
}

TEST(Add, IsElementwiseToTheLastElement) {
  Random random;
  for (const Isa isa : isas())
    for (const int64_t n : {1, 15, 16, 17, 40'013}) {
      const Running running(isa, 2);
      const Buffer x = random.buffer(DType::f32, n), y = random.buffer(DType::f32, n);
      Buffer sum(DType::f32, n);
      std::memcpy(sum.data(), y.data(), y.bytes());
      add(n, x.f32(), sum.f32());
      EXPECT_TRUE(sum.intact());
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(sum.f32()[i], x.f32()[i] + y.f32()[i]);
    }
}

TEST(SquaredSum, IsTheSameForAnyNumberOfThreads) {
  Random random;
  for (const Isa isa : isas())
    for (const int64_t n : {1, 1000, 65'536, 300'007}) {
      const Buffer x = random.buffer(DType::f32, n);
      double want = 0;
      for (int64_t i = 0; i < n; ++i) want += x[i] * x[i];
      double first = 0;
      for (const int threads : {1, 2, 3}) {
        const Running running(isa, threads);
        const double got = squared_sum(n, x.f32());
        EXPECT_TRUE(within(got, want, 2e-6 * want));
        if (threads == 1) first = got;
        EXPECT_EQ(got, first);
      }
    }
}

TEST(Normalise, HasTheBitsOfThePlainLoopInPlaceToo) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 20; ++round) {
      const Running running(isa, 1);
      const int64_t n = random.integer(1, 100);
      const Buffer x = random.buffer(DType::f32, n, 10), mean = random.buffer(DType::f32, n, 10);
      Buffer std = random.buffer(DType::f32, n), y(DType::f32, n), in_place(DType::f32, n);
      for (int64_t i = 0; i < n; ++i) std.set(i, std::abs(std[i]) + 1e-3);
      std::memcpy(in_place.data(), x.data(), x.bytes());
      normalise(n, x.f32(), mean.f32(), std.f32(), y.f32());
      normalise(n, in_place.f32(), mean.f32(), std.f32(), in_place.f32());
      for (int64_t i = 0; i < n; ++i) {
        const float centred = x.f32()[i] - mean.f32()[i];
        ASSERT_EQ(y.f32()[i], centred / std.f32()[i]) << i;
      }
      EXPECT_TRUE(y.same_bits(in_place) && y.intact());
    }
}

TEST(Transpose, PutsEveryElementInItsPlace) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 20; ++round) {
      const Running running(isa, 1);
      const int64_t rows = random.integer(1, 40), cols = random.integer(1, 40);
      const int64_t ld_x = cols + random.integer(0, 3), ld_y = rows + random.integer(0, 3);
      const Buffer x = random.buffer(DType::f32, rows * ld_x);
      Buffer y(DType::f32, cols * ld_y);
      kernels().transpose(rows, cols, x.f32(), ld_x, y.f32(), ld_y);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) ASSERT_EQ(y[j * ld_y + i], x[i * ld_x + j]);
      for (int64_t j = 0; j < cols; ++j)  // gaps between rows stay unchanged
        for (int64_t i = rows; i < ld_y; ++i) ASSERT_TRUE(std::isnan(y[j * ld_y + i]));
    }
}

TEST(Squares, AreThoseOfALine) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 20; ++round) {
      const Running running(isa, 1);
      const int64_t n = random.integer(1, 300);
      const Buffer guess = random.buffer(DType::f32, n), truth = random.buffer(DType::f32, n);
      float got[2] = {NAN, NAN};
      kernels().squares(n, guess.f32(), truth.f32(), got);
      double error = 0, size = 0;
      for (int64_t i = 0; i < n; ++i) {
        error += (guess[i] - truth[i]) * (guess[i] - truth[i]);
        size += truth[i] * truth[i];
      }
      EXPECT_TRUE(within(got[0], error, 1e-6 * error)) << n;
      EXPECT_TRUE(within(got[1], size, 1e-6 * size)) << n;
    }
}

}  // namespace
}  // namespace isobar::cpu::testing
