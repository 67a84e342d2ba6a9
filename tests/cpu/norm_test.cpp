// Residual add + layer norm against double precision.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

struct NormCase {
  ResidualNorm p;
  Buffer residual, y, gamma, beta, dh, dx;
};

NormCase random_norm(Random& random, DType act) {
  ResidualNorm p{.rows = random.integer(1, 70),
                 .cols = random.one_of<int64_t>({1, 3, 16, 48, 77, 384, 1000}),
                 .eps = 1e-6f,
                 .period = random.coin() ? 0 : random.integer(1, 20),
                 .act = act,
                 .row0 = random.integer(0, 50)};
  const int64_t n = p.rows * p.cols;
  return {p,
          random.buffer(DType::f32, (p.period > 0 ? p.period : p.rows) * p.cols, 1, random.normal(3)),
          random.buffer(act, n),
          random.buffer(DType::f32, p.cols),
          random.buffer(DType::f32, p.cols),
          random.buffer(act, n),
          random.buffer(DType::f32, n)};
}

std::vector<double> sum_of(const NormCase& c, bool with_y) {
  std::vector<double> x(c.p.rows * c.p.cols);
  for (int64_t r = 0; r < c.p.rows; ++r)
    for (int64_t j = 0; j < c.p.cols; ++j)
      x[r * c.p.cols + j] = c.residual[(c.p.period > 0 ? (c.p.row0 + r) % c.p.period : r) * c.p.cols + j] +
                            (with_y ? c.y[r * c.p.cols + j] : 0.0);
  return x;
}

struct Statistics {
  double mean, rstd;
};
Statistics statistics(const double* x, int64_t n, double eps) {
  double mean = 0, variance = 0;
  for (int64_t j = 0; j < n; ++j) mean += x[j] / static_cast<double>(n);
  for (int64_t j = 0; j < n; ++j) variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(n);
  return {mean, 1 / std::sqrt(variance + eps)};
}

double largest(const double* x, int64_t n) {
  double top = 0;
  for (int64_t j = 0; j < n; ++j) top = std::max(top, std::abs(x[j]));
  return top;
}

TEST(ResidualNormForward, AddsAndNormalises) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 12; ++round) {
      const DType act = random.act();
      const NormCase c = random_norm(random, act);
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const ResidualNorm& p = c.p;
      const bool with_y = random.coin(), with_x = with_y || random.coin();
      const int64_t n = p.rows * p.cols;
      Buffer x_out(DType::f32, n), h(act, n), mean(DType::f32, p.rows), rstd(DType::f32, p.rows);
      residual_norm_forward(p, c.residual.f32(), with_y ? c.y.data() : nullptr, c.gamma.f32(), c.beta.f32(),
                            with_x ? x_out.f32() : nullptr, h.data(), mean.f32(), rstd.f32());
      EXPECT_TRUE(x_out.intact() && h.intact() && mean.intact() && rstd.intact());
      const std::vector<double> x = sum_of(c, with_y);
      for (int64_t r = 0; r < p.rows; ++r) {
        const Statistics s = statistics(&x[r * p.cols], p.cols, p.eps);
        const double size = largest(&x[r * p.cols], p.cols);
        const double x_error = 8 * kFloatRoundoff * size;  // of the sum and of the mean
        ASSERT_TRUE(within(mean[r], s.mean, x_error));
        // |d rstd / d x| <= rstd^2; one column has variance 0, where rstd is 1 / sqrt(eps) up to x_error^2
        const double rstd_error = p.cols == 1 ? 1e-3 * s.rstd : x_error * s.rstd * s.rstd + 4e-7 * s.rstd;
        ASSERT_TRUE(within(rstd[r], s.rstd, rstd_error));
        for (int64_t j = 0; j < p.cols; ++j) {
          const int64_t i = r * p.cols + j;
          if (with_y)
            ASSERT_EQ(x_out.f32()[i], static_cast<float>(x[i]));
          else
            ASSERT_TRUE(std::isnan(x_out[i])) << "x_out must not be written without y";
          const double normal = (x[i] - s.mean) * s.rstd;
          const double want = normal * c.gamma[j] + c.beta[j];
          const double bound = std::abs(c.gamma[j]) * (3 * x_error * s.rstd * (1 + std::abs(normal))) +
                               2e-7 * (std::abs(want) + std::abs(c.beta[j])) + rounding(act, want);
          ASSERT_TRUE(within(h[i], want, bound)) << "h at row " << r << " column " << j << " of " << p.cols;
        }
      }
    }
}

TEST(ResidualAdd, IsElementwiseToTheLastElementAndInPlace) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs)
      for (const int64_t n :
           {int64_t{1}, int64_t{17}, random.integer(1, 3000), random.integer(20'000, 60'000)}) {
        const Running running(isa, static_cast<int>(random.integer(1, 3)));
        const Buffer residual = random.buffer(DType::f32, n), y = random.buffer(act, n);
        Buffer x(DType::f32, n), in_place(DType::f32, n);
        std::memcpy(in_place.data(), residual.data(), residual.bytes());
        residual_add(n, act, residual.f32(), y.data(), x.f32());
        residual_add(n, act, in_place.f32(), y.data(), in_place.f32());
        EXPECT_TRUE(x.intact() && x.same_bits(in_place));
        for (int64_t i = 0; i < n; ++i)
          ASSERT_EQ(x.f32()[i], residual.f32()[i] + static_cast<float>(y[i])) << "at " << i;
      }
}

struct Sums {
  Buffer dgamma, dbeta, dbias;
  explicit Sums(int64_t n) : dgamma(DType::f32, n), dbeta(DType::f32, n), dbias(DType::f32, n) {}
};

TEST(ResidualNormBackward, IsTheTextbookGradient) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 12; ++round) {
      const DType act = random.act();
      const NormCase c = random_norm(random, act);
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const ResidualNorm& p = c.p;
      const bool first = random.coin(), accumulate = random.coin(), with_copy = random.coin();
      const int64_t n = p.rows * p.cols;
      Buffer x(DType::f32, n), mean(DType::f32, p.rows), rstd(DType::f32, p.rows);
      std::vector<double> exact(n);
      for (int64_t i = 0; i < n; ++i) {
        x.set(i, random.normal() + 2);
        exact[i] = x[i];
      }
      for (int64_t r = 0; r < p.rows; ++r) {
        const Statistics s = statistics(&exact[r * p.cols], p.cols, p.eps);
        mean.set(r, s.mean);
        rstd.set(r, s.rstd);
      }
      Sums before(p.cols), after(p.cols), again(p.cols);
      for (int64_t j = 0; j < p.cols; ++j)
        for (Buffer Sums::*b : {&Sums::dgamma, &Sums::dbeta, &Sums::dbias}) {
          (before.*b).set(j, accumulate ? random.normal() : NAN);
          (after.*b).f32()[j] = (again.*b).f32()[j] = (before.*b).f32()[j];
        }
      Buffer dx(DType::f32, n), dx2(DType::f32, n), dy(act, n);
      if (!first)
        for (int64_t i = 0; i < n; ++i) dx.f32()[i] = dx2.f32()[i] = c.dx.f32()[i];
      residual_norm_backward(p, x.f32(), mean.f32(), rstd.f32(), c.gamma.f32(), c.dh.data(), dx.f32(), first,
                             with_copy ? dy.data() : nullptr, after.dgamma.f32(), after.dbeta.f32(),
                             after.dbias.f32(), accumulate);
      residual_norm_backward(p, x.f32(), mean.f32(), rstd.f32(), c.gamma.f32(), c.dh.data(), dx2.f32(), first,
                             nullptr, again.dgamma.f32(), again.dbeta.f32(), again.dbias.f32(), accumulate);
      EXPECT_TRUE(dx.same_bits(dx2) && after.dgamma.same_bits(again.dgamma) &&
                  after.dbeta.same_bits(again.dbeta) && after.dbias.same_bits(again.dbias));
      if (with_copy && act == DType::f32) {
        EXPECT_TRUE(dy.same_bits(dx));
      }
      EXPECT_TRUE(dx.intact() && dy.intact() && after.dgamma.intact() && after.dbeta.intact());
      std::vector<double> dgamma(p.cols), dbeta(p.cols), dbias(p.cols), size(p.cols);
      for (int64_t r = 0; r < p.rows; ++r) {
        double g_mean = 0, gx_mean = 0, g_abs = 0;
        for (int64_t j = 0; j < p.cols; ++j) {
          const int64_t i = r * p.cols + j;
          const double g = c.dh[i] * c.gamma[j], normal = (x[i] - mean[r]) * rstd[r];
          g_mean += g / static_cast<double>(p.cols);
          gx_mean += g * normal / static_cast<double>(p.cols);
          g_abs = std::max(g_abs, std::abs(g));
        }
        for (int64_t j = 0; j < p.cols; ++j) {
          const int64_t i = r * p.cols + j;
          const double g = c.dh[i] * c.gamma[j], normal = (x[i] - mean[r]) * rstd[r];
          const double want = rstd[r] * (g - g_mean - normal * gx_mean) + (first ? 0.0 : c.dx[i]);
          const double bound =
              2e-6 * (rstd[r] * g_abs * (3 + std::abs(normal)) * (1 + std::abs(x[i]) * rstd[r])) +
              2 * rounding(DType::f32, want);
          ASSERT_TRUE(within(dx[i], want, bound)) << "dx, row " << r << " column " << j << " of " << p.cols;
          if (with_copy) {
            ASSERT_TRUE(within(dy[i], want, bound + rounding(act, want)));
          }
          dgamma[j] += c.dh[i] * normal;
          dbeta[j] += c.dh[i];
          dbias[j] += dx[i];
          size[j] += std::abs(c.dh[i]) * (1 + std::abs(normal) + std::abs(x[i]) * rstd[r]) + std::abs(dx[i]);
        }
      }
      for (int64_t j = 0; j < p.cols; ++j) {
        const double bound = 4e-6 * (size[j] + 1);
        ASSERT_TRUE(within(after.dgamma[j], dgamma[j] + (accumulate ? before.dgamma[j] : 0), bound)) << j;
        ASSERT_TRUE(within(after.dbeta[j], dbeta[j] + (accumulate ? before.dbeta[j] : 0), bound)) << j;
        ASSERT_TRUE(within(after.dbias[j], dbias[j] + (accumulate ? before.dbias[j] : 0), bound)) << j;
      }
    }
}

TEST(ResidualNormBackward, AgreesWithFiniteDifferences) {
  Random random;
  const ResidualNorm p{.rows = 5, .cols = 19, .eps = 1e-6f, .period = 0, .act = DType::f32};
  const int64_t n = p.rows * p.cols;
  Buffer x = random.buffer(DType::f32, n), gamma = random.buffer(DType::f32, p.cols);
  Buffer beta = random.buffer(DType::f32, p.cols), dh = random.buffer(DType::f32, n);
  Buffer h(DType::f32, n), mean(DType::f32, p.rows), rstd(DType::f32, p.rows), dx(DType::f32, n);
  Buffer dgamma(DType::f32, p.cols), dbeta(DType::f32, p.cols);
  residual_norm_forward(p, x.f32(), nullptr, gamma.f32(), beta.f32(), nullptr, h.data(), mean.f32(),
                        rstd.f32());
  residual_norm_backward(p, x.f32(), mean.f32(), rstd.f32(), gamma.f32(), dh.data(), dx.f32(), true, nullptr,
                         dgamma.f32(), dbeta.f32(), nullptr, false);
  std::vector<double> x_dir(n), g_dir(p.cols), b_dir(p.cols);
  double slope = 0, magnitude = 0;
  const auto along = [&](std::vector<double>& direction, const Buffer& grad) {
    for (size_t i = 0; i < direction.size(); ++i) {
      direction[i] = random.normal();
      slope += direction[i] * grad[static_cast<int64_t>(i)];
      magnitude += std::abs(direction[i] * grad[static_cast<int64_t>(i)]);
    }
  };
  along(x_dir, dx);
  along(g_dir, dgamma);
  along(b_dir, dbeta);
  const auto objective = [&](double step) {
    double sum = 0;
    for (int64_t r = 0; r < p.rows; ++r) {
      std::vector<double> row(p.cols);
      for (int64_t j = 0; j < p.cols; ++j) row[j] = x[r * p.cols + j] + step * x_dir[r * p.cols + j];
      const Statistics s = statistics(row.data(), p.cols, p.eps);
      for (int64_t j = 0; j < p.cols; ++j)
        sum += dh[r * p.cols + j] *
               ((row[j] - s.mean) * s.rstd * (gamma[j] + step * g_dir[j]) + beta[j] + step * b_dir[j]);
    }
    return sum;
  };
  const double step = 1e-5;
  EXPECT_TRUE(within(slope, (objective(step) - objective(-step)) / (2 * step), 1e-5 * magnitude));
}

}  // namespace
}  // namespace isobar::cpu::testing
