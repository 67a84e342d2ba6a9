// Gathers, segment sums and the norm of messages, against the CPU's.
#include "model/backend/cuda/kernels/workspace.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

std::vector<int32_t> below(Random& random, int64_t count, int64_t limit) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(random.integer(0, limit - 1)));
  return out;
}

OnDevice on_device(const std::vector<int32_t>& x) {
  return OnDevice(x.data(), static_cast<int64_t>(x.size() * sizeof(int32_t)));
}
const int32_t* ints(const OnDevice& x) {
  return static_cast<const int32_t*>(x.data());
}

struct GatherCase {
  int64_t batch, rows, cols, table, table2, shift;
  bool base, base_f32, two, in_place;
};

TEST(Kernels, GatherIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const GatherCase& c : {GatherCase{1, 37, 64, 9, 5, 0, true, false, true, true},
                              GatherCase{2, 300, 40, 30, 30, 0, true, true, false, false},
                              GatherCase{3, 5, 3, 2, 7, 0, false, false, true, false},
                              GatherCase{2, 9, 132, 4, 4, 4, true, true, true, false},
                              GatherCase{1, 1, 1, 1, 1, 0, false, false, false, false}})
    for (const DType act : kActs) {
      const DType base_type = c.base_f32 ? DType::f32 : act;
      const int64_t n = c.batch * c.rows * c.cols;
      const Buffer base = random.buffer(base_type, n), table = random.buffer(act, c.batch * c.table * c.cols),
                   table2 = random.buffer(act, c.batch * c.table2 * c.cols);
      std::vector<int32_t> index = below(random, c.rows, c.table), index2 = below(random, c.rows, c.table2);
      for (auto* of : {&index, &index2})  // adds nothing
        for (size_t i = 2; i < of->size(); i += 5) (*of)[i] = -1;
      Buffer y(act, n);
      if (c.in_place) std::memcpy(y.data(), base.data(), static_cast<size_t>(y.bytes()));
      const OnDevice dbase(base), dtable(table, c.shift), dtable2(table2), dy(y), di = on_device(index),
                                                                                  di2 = on_device(index2);
      gather({c.batch, c.rows, c.cols, c.table, c.table2, act, base_type},
             c.in_place ? dy.data()
             : c.base   ? dbase.data()
                        : nullptr,
             dtable.data(), ints(di), c.two ? dtable2.data() : nullptr, c.two ? ints(di2) : nullptr,
             dy.data(), nullptr);
      cpu::gather({c.batch, c.rows, c.cols, c.table, c.table2, act, base_type},
                  c.in_place ? y.data()
                  : c.base   ? base.data()
                             : nullptr,
                  table.data(), index.data(), c.two ? table2.data() : nullptr,
                  c.two ? index2.data() : nullptr, y.data());
      expect_near(dy.read(act), y, tolerance(act), name_of(act));
    }
}

TEST(Kernels, SegmentSumIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [batch, segments, cols, ordered] :
       {std::tuple<int64_t, int64_t, int64_t, bool>{1, 20, 64, false},
        {2, 7, 40, true},
        {3, 5, 3, true},
        {2, 300, 132, false},
        {1, 1, 1, true}})
    for (const DType act : kActs) {
      std::vector<int32_t> offsets{0};
      for (int64_t s = 0; s < segments; ++s)
        offsets.push_back(offsets.back() + static_cast<int32_t>(random.one_of<int64_t>({0, 1, 5, 33})));
      offsets.back() += 1;  // at least one
      const int64_t rows = offsets.back();
      const std::vector<int32_t> order = below(random, rows, rows);
      const Buffer x = random.buffer(act, batch * rows * cols);
      Buffer y(act, batch * segments * cols);
      const OnDevice dx(x), dy(y), doffsets = on_device(offsets), dorder = on_device(order);
      segment_sum({batch, rows, cols, segments, act}, dx.data(), ints(doffsets),
                  ordered ? ints(dorder) : nullptr, dy.data(), nullptr);
      cpu::segment_sum({batch, rows, cols, segments, act}, x.data(), offsets.data(),
                       ordered ? order.data() : nullptr, y.data());
      expect_near(dy.read(act), y, tolerance(act), name_of(act));
    }
}

TEST(Kernels, NormResidualIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [rows, cols, with_h, with_y, residual] :
       {std::tuple<int64_t, int64_t, bool, bool, bool>{37, 256, true, true, true},
        {5, 63, false, true, false},
        {9, 1000, true, false, false},
        {3, 3, false, false, false},
        {8, 64, true, true, false}})
    for (const DType act : kActs) {
      const int64_t n = rows * cols;
      const Buffer x = random.buffer(act, n, 2, 1), r = random.buffer(DType::f32, n),
                   gamma = random.buffer(DType::f32, cols), beta = random.buffer(DType::f32, cols);
      Buffer h(act, n), y(DType::f32, n), mean(DType::f32, rows), rstd(DType::f32, rows);
      const OnDevice dx(x), dr(r), dg(gamma), db(beta), dh(h), dy(y), dm(mean), ds(rstd);
      norm_residual({rows, cols, 1e-5f, 0, act}, dx.data(), residual ? dr.f32() : nullptr, dg.f32(), db.f32(),
                    with_h ? dh.data() : nullptr, with_y ? dy.f32() : nullptr, dm.f32(), ds.f32(), nullptr);
      cpu::norm_residual({rows, cols, 1e-5f, 0, act}, x.data(), residual ? r.f32() : nullptr, gamma.f32(),
                         beta.f32(), with_h ? h.data() : nullptr, with_y ? y.f32() : nullptr, mean.f32(),
                         rstd.f32());
      if (with_h) expect_near(dh.read(act), h, tolerance(act), name_of(act) + std::string(" h"));
      if (with_y) expect_near(dy.read(DType::f32), y, 2e-6, name_of(act) + std::string(" y"));
      expect_near(dm.read(DType::f32), mean, 2e-6, "mean");
      expect_near(ds.read(DType::f32), rstd, 2e-6, "rstd");
    }
}

TEST(Kernels, NormResidualBackwardIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [rows, cols, accumulate] :
       {std::tuple<int64_t, int64_t, bool>{37, 256, true}, {5, 63, false}, {1600, 8, true}, {3, 4100, false}})
    for (const DType act : kActs) {
      const int64_t n = rows * cols;
      const Buffer x = random.buffer(act, n, 1, 0.5), dh = random.buffer(act, n),
                   gamma = random.buffer(DType::f32, cols), beta = random.buffer(DType::f32, cols);
      Buffer mean(DType::f32, rows), rstd(DType::f32, rows), dx(act, n);
      cpu::norm_residual({rows, cols, 1e-5f, 0, act}, x.data(), nullptr, gamma.f32(), beta.f32(), nullptr,
                         nullptr, mean.f32(), rstd.f32());
      std::vector<Buffer> sums;
      for (int i = 0; i < 3; ++i)
        sums.push_back(accumulate ? random.buffer(DType::f32, cols) : Buffer(DType::f32, cols));
      Buffer scratch(DType::f32, 3 * cols * norm_partials(rows));
      const OnDevice gx(x), gm(mean), gs(rstd), gg(gamma), gh(dh), gdx(dx), g0(sums[0]), g1(sums[1]),
          g2(sums[2]), gw(scratch);
      norm_residual_backward({rows, cols, 1e-5f, 0, act}, gx.data(), gm.f32(), gs.f32(), gg.f32(), gh.data(),
                             gdx.data(), g0.f32(), g1.f32(), g2.f32(), accumulate, gw.f32(), nullptr);
      cpu::norm_residual_backward({rows, cols, 1e-5f, 0, act}, x.data(), mean.f32(), rstd.f32(), gamma.f32(),
                                  dh.data(), dx.data(), sums[0].f32(), sums[1].f32(), sums[2].f32(),
                                  accumulate);
      expect_near(gdx.read(act), dx, tolerance(act) + 4e-6, name_of(act) + std::string(" dx"));
      const auto at = [&](int64_t r, int64_t j) { return r * cols + j; };
      const std::string what = name_of(act);
      expect_sums_near(
          g0.read(DType::f32), sums[0], rows,
          [&](int64_t r, int64_t j) { return dh[at(r, j)] * (x[at(r, j)] - mean[r]) * rstd[r]; },
          what + " dgamma");
      expect_sums_near(
          g1.read(DType::f32), sums[1], rows, [&](int64_t r, int64_t j) { return dh[at(r, j)]; },
          what + " dbeta");
      // Sums of dx before rounding, which narrow types hide; half a unit of each may show.
      expect_sums_near(
          g2.read(DType::f32), sums[2], rows, [&](int64_t r, int64_t j) { return dx[at(r, j)]; },
          what + " dbias", act == DType::f32 ? 5e-7 : 2 * roundoff(act));
      (void)gw.read(DType::f32);
    }
}

}  // namespace
}  // namespace isobar::cuda::testing
