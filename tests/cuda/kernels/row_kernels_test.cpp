// Norms, column sums and elementwise passes.
#include "model/backend/cuda/kernels/workspace.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

std::string text(DType t, int64_t rows, int64_t cols) {
  return std::string(name_of(t)) + " " + std::to_string(rows) + "x" + std::to_string(cols);
}

TEST(Kernels, ResidualNormIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  struct Case {
    int64_t rows, cols, period, row0, shift;
    bool y;
  };
  for (const Case& c :
       {Case{5, 384, 0, 0, 0, true}, Case{6, 64, 4, 3, 0, true}, Case{3, 63, 0, 0, 0, true},
        Case{2, 1536, 0, 0, 0, true}, Case{3, 520, 0, 0, 0, false}, Case{2, 2052, 0, 0, 0, true},
        Case{2, 5000, 0, 0, 0, true}, Case{1, 17000, 0, 0, 0, true}, Case{4, 64, 0, 0, 4, true}})
    for (const DType act : kActs) {
      const Buffer residual = random.buffer(DType::f32, (c.period > 0 ? c.period : c.rows) * c.cols, 3, 1);
      const Buffer y = random.buffer(act, c.rows * c.cols), gamma = random.buffer(DType::f32, c.cols),
                   beta = random.buffer(DType::f32, c.cols);
      Buffer x(DType::f32, c.rows * c.cols), h(act, c.rows * c.cols), mean(DType::f32, c.rows),
          rstd(DType::f32, c.rows);
      const OnDevice dr(residual, c.shift), dy(y), dg(gamma), db(beta), dx(x), dh(h), dm(mean), ds(rstd);
      residual_norm({c.rows, c.cols, 1e-6f, c.period, act, c.row0}, dr.f32(), c.y ? dy.data() : nullptr,
                    dg.f32(), db.f32(), c.y ? dx.f32() : nullptr, dh.data(), dm.f32(), ds.f32(), nullptr);
      cpu::residual_norm_forward({c.rows, c.cols, 1e-6f, c.period, act, c.row0}, residual.f32(),
                                 c.y ? y.data() : nullptr, gamma.f32(), beta.f32(), c.y ? x.f32() : nullptr,
                                 h.data(), mean.f32(), rstd.f32());
      const std::string what = text(act, c.rows, c.cols);
      if (c.y) expect_near(dx.read(DType::f32), x, 1e-7, what + " x");
      expect_near(dh.read(act), h, tolerance(act), what + " h");
      expect_near(dm.read(DType::f32), mean, 2e-6, what + " mean");
      expect_near(ds.read(DType::f32), rstd, 2e-6, what + " rstd");
    }
}

TEST(Kernels, ResidualNormBackwardIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  struct Case {
    int64_t rows, cols, shift;
    bool first, dy, dbias, accumulate;
  };
  for (const Case& c : {Case{37, 384, 0, false, true, true, true}, Case{5, 64, 0, true, true, false, false},
                        Case{3, 63, 0, false, true, true, false}, Case{9, 1536, 0, false, false, true, true},
                        Case{3, 2052, 0, false, true, true, false}, Case{3, 4100, 0, false, true, true, true},
                        Case{1600, 8, 0, false, true, true, true}, Case{450, 516, 0, true, true, true, false},
                        Case{5, 64, 4, false, true, true, false}})
    for (const DType act : kActs) {
      const int64_t n = c.rows * c.cols;
      const Buffer x = random.buffer(DType::f32, n, 1, 0.5), dh = random.buffer(act, n),
                   gamma = random.buffer(DType::f32, c.cols);
      Buffer mean(DType::f32, c.rows), rstd(DType::f32, c.rows);
      for (int64_t r = 0; r < c.rows; ++r) {
        double m = 0, v = 0;
        for (int64_t j = 0; j < c.cols; ++j) m += x[r * c.cols + j] / static_cast<double>(c.cols);
        for (int64_t j = 0; j < c.cols; ++j)
          v += (x[r * c.cols + j] - m) * (x[r * c.cols + j] - m) / static_cast<double>(c.cols);
        mean.set(r, m);
        rstd.set(r, 1 / std::sqrt(v + 1e-6));
      }
      Buffer dx = c.first ? Buffer(DType::f32, n) : random.buffer(DType::f32, n);
      Buffer dy(act, n);
      std::vector<Buffer> sums;
      for (int i = 0; i < 3; ++i)
        sums.push_back(c.accumulate ? random.buffer(DType::f32, c.cols) : Buffer(DType::f32, c.cols));
      Buffer scratch(DType::f32, 3 * c.cols * norm_partials(c.rows));
      const OnDevice gx(x, c.shift), gm(mean), gs(rstd), gg(gamma), gh(dh), gdx(dx), gdy(dy), g0(sums[0]),
          g1(sums[1]), g2(sums[2]), gw(scratch);
      residual_norm_backward({c.rows, c.cols, 1e-6f, 0, act}, gx.f32(), gm.f32(), gs.f32(), gg.f32(),
                             gh.data(), gdx.f32(), c.first, c.dy ? gdy.data() : nullptr, g0.f32(), g1.f32(),
                             c.dbias ? g2.f32() : nullptr, c.accumulate, gw.f32(), nullptr);
      cpu::residual_norm_backward({c.rows, c.cols, 1e-6f, 0, act}, x.f32(), mean.f32(), rstd.f32(),
                                  gamma.f32(), dh.data(), dx.f32(), c.first, c.dy ? dy.data() : nullptr,
                                  sums[0].f32(), sums[1].f32(), c.dbias ? sums[2].f32() : nullptr,
                                  c.accumulate);
      const std::string what = text(act, c.rows, c.cols);
      expect_near(gdx.read(DType::f32), dx, 4e-6, what + " dx");
      if (c.dy) expect_near(gdy.read(act), dy, tolerance(act) + 4e-6, what + " dy");
      const auto at = [&](int64_t r, int64_t j) { return r * c.cols + j; };
      expect_sums_near(
          g0.read(DType::f32), sums[0], c.rows,
          [&](int64_t r, int64_t j) { return dh[at(r, j)] * (x[at(r, j)] - mean[r]) * rstd[r]; },
          what + " dgamma");
      expect_sums_near(
          g1.read(DType::f32), sums[1], c.rows, [&](int64_t r, int64_t j) { return dh[at(r, j)]; },
          what + " dbeta");
      if (c.dbias)
        expect_sums_near(
            g2.read(DType::f32), sums[2], c.rows, [&](int64_t r, int64_t j) { return dx[at(r, j)]; },
            what + " dbias");
      (void)gw.read(DType::f32);  // checks the guards of the workspace
    }
}

TEST(Kernels, ActivationsAndTheirGradientsAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [rows, cols, shift] :
       {std::tuple<int64_t, int64_t, int64_t>{33, 96, 0}, {7, 65, 0}, {50, 264, 0}, {9, 16, 2}, {300, 8, 0}})
    for (const DType act : kActs)
      for (int which = 0; which < kActivations; ++which) {
        if (shift > 0 && act == DType::f32) continue;
        const auto f = static_cast<Activation>(which);
        const int64_t n = rows * cols;
        const bool accumulate = random.coin();
        const Buffer u = random.buffer(act, n, 3), dg = random.buffer(act, n);
        Buffer g(act, n), du(act, n),
            dbias = accumulate ? random.buffer(DType::f32, cols) : Buffer(DType::f32, cols);
        Buffer scratch(DType::f32, cols * column_partials(rows, cols));
        const OnDevice gu(u, shift), gg(g, shift), gd(dg, shift), gb(dbias), gw(scratch);
        activation(f, n, act, gu.data(), gg.data(), nullptr);
        activation_backward(f, rows, cols, act, gu.data(), gd.data(), gd.data(), gb.f32(), accumulate,
                            gw.f32(), nullptr);
        cpu::activation_forward(f, n, act, u.data(), g.data());
        cpu::activation_backward(f, rows, cols, act, u.data(), dg.data(), du.data(), dbias.f32(), accumulate);
        const std::string what = text(act, rows, cols) + " " + name_of(f);
        expect_near(gg.read(act), g, tolerance(act), what);
        expect_near(gd.read(act), du, tolerance(act), what + " du, in place");
        expect_sums_near(
            gb.read(DType::f32), dbias, rows, [&](int64_t r, int64_t j) { return dg[r * cols + j]; },
            what + " dbias", act == DType::bf16 ? 2e-5 : 2e-6);  // the CPU's exp2 for bf16 is accurate to
                                                                 // 4e-6
        (void)gw.read(DType::f32);
      }
}

TEST(Kernels, GeluIsExactToTheTypesLastDigit) {
  ISOBAR_NEEDS_KERNELS();
  for (const DType act : kActs) {
    const int64_t n = 2001;
    Buffer u(act, n), g(act, n);
    for (int64_t i = 0; i < n; ++i) u.set(i, -10 + 0.01 * static_cast<double>(i));
    const OnDevice gu(u), gg(g);
    activation(Activation::gelu, n, act, gu.data(), gg.data(), nullptr);
    const Buffer got = gg.read(act);
    for (int64_t i = 0; i < n; ++i) {
      const double want = 0.5 * u[i] * std::erfc(-u[i] / std::sqrt(2.0));
      // f32: erfc's argument is rounded, magnified in its tail by u^2; 16-bit types: the approximation errs
      // by at most 8e-8, times u
      const double slack = act == DType::f32 ? roundoff(act) * (16 + 2 * u[i] * u[i]) * std::abs(want)
                                             : roundoff(act) * std::abs(want) + 1e-6;
      ASSERT_LE(std::abs(got[i] - want), slack) << name_of(act) << " gelu(" << u[i] << ")";
    }
  }
}

TEST(Kernels, ColumnAndPeriodSumsAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{100, 64}, {1, 8}, {37, 131}, {2000, 4}})
    for (const bool accumulate : {false, true}) {
      for (const DType t : kActs) {
        const Buffer x = random.buffer(t, rows * cols);
        Buffer sum = accumulate ? random.buffer(DType::f32, cols) : Buffer(DType::f32, cols);
        Buffer scratch(DType::f32, cols * column_partials(rows, cols));
        const OnDevice gx(x), gs(sum), gw(scratch);
        column_sum(rows, cols, t, gx.data(), gs.f32(), accumulate, gw.f32(), nullptr);
        cpu::column_sum(rows, cols, t, x.data(), sum.f32(), accumulate);
        expect_sums_near(
            gs.read(DType::f32), sum, rows, [&](int64_t r, int64_t j) { return x[r * cols + j]; },
            text(t, rows, cols) + " column_sum");
      }
      for (const auto& [period, row0] : {std::pair<int64_t, int64_t>{9, 0}, {13, 5}, {450, 2}}) {
        const Buffer dx = random.buffer(DType::f32, rows * cols);
        Buffer dpos =
            accumulate ? random.buffer(DType::f32, period * cols) : Buffer(DType::f32, period * cols);
        const OnDevice gx(dx), gp(dpos);
        period_sum(rows, cols, period, row0, gx.f32(), gp.f32(), accumulate, nullptr);
        cpu::period_sum(rows, cols, period, row0, dx.f32(), dpos.f32(), accumulate);
        expect_near(gp.read(DType::f32), dpos, 5e-6, text(DType::f32, rows, cols) + " period_sum");
      }
    }
}

TEST(Kernels, ResidualAddCastAndCopyAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const int64_t n : {int64_t{1}, int64_t{1000}, int64_t{4097}}) {
    for (const DType from : kActs) {
      const Buffer y = random.buffer(from, n);
      Buffer x = random.buffer(DType::f32, n);
      const OnDevice gy(y), gx(x);
      residual_add(n, from, gx.f32(), gy.data(), gx.f32(), DType::f32, nullptr);
      cpu::residual_add(n, from, x.f32(), y.data(), x.f32());
      EXPECT_TRUE(gx.read(DType::f32).same_bits(x)) << "residual_add of " << n << " " << name_of(from);
      for (const DType to : kActs)
        for (const bool accumulate : {false, true}) {
          Buffer z = accumulate ? random.buffer(to, n) : Buffer(to, n);
          const OnDevice gz(z);
          cast(n, from, to, gy.data(), gz.data(), accumulate, nullptr);
          if (accumulate)
            cpu::cast_add(n, from, to, y.data(), z.data());
          else
            cpu::cast(n, from, to, y.data(), z.data());
          EXPECT_TRUE(gz.read(to).same_bits(z)) << "cast of " << n << " " << name_of(from) << " to "
                                                << name_of(to) << (accumulate ? ", added" : "");
        }
    }
  }
  for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{24}, int64_t{13}})
    for (const DType t : {DType::f32, DType::bf16}) {
      const int64_t e0 = 3, e1 = 4, e2 = 5, gap = 8;
      const Buffer x = random.buffer(t, e0 * e1 * e2 * (n + gap));
      Buffer y(t, e0 * e1 * e2 * n);
      const OnDevice gx(x), gy(y);
      const int64_t row = n + gap;
      copy({{e0, e1, e2}, {e1 * e2 * row, e2 * row, row}, {n, e0 * n, e0 * e1 * n}, n, t}, gx.data(),
           gy.data(), nullptr);
      cpu::copy({{e0, e1, e2}, {e1 * e2 * row, e2 * row, row}, {n, e0 * n, e0 * e1 * n}, n, t}, x.data(),
                y.data());
      EXPECT_TRUE(gy.read(t).same_bits(y)) << "copy of blocks of " << n << " " << name_of(t);
    }
}

}  // namespace
}  // namespace isobar::cuda::testing
