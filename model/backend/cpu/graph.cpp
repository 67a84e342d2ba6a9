// Graph networks: gathers by constant indices and sums over segments (one thread each, in row order, so the
// number of threads does not matter).
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void gather(const Gather& p, const void* base, const void* table, const int32_t* index, const void* table2,
            const int32_t* index2, void* y) {
  const auto kernel = kernels().gather[of(p.act)][p.base == p.act ? 0 : 1];
  parallel(p.batch * p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.batch * p.rows, t, threads);
    kernel(p, r.begin, r.end, base, table, index, table2, index2, y);
  });
}

void segment_sum(const SegmentSum& p, const void* x, const int32_t* offsets, const int32_t* order, void* y) {
  const auto kernel = kernels().segment_sum[of(p.act)];
  parallel(p.batch * p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.batch * p.segments, t, threads);
    kernel(p, r.begin, r.end, x, offsets, order, y);
  });
}

// ---- ops ----

namespace {

void run_gather(const CpuCall<plan::OpKind::gather>& c) {
  const DType act = c.type_in("table");
  const auto rows = [&](const plan::View& table) { return table.count / (c.a.batch * c.a.cols); };
  gather({c.a.batch, c.a.rows / c.a.batch, c.a.cols, rows(c.view_in("table")), rows(c.view_in("table2")), act,
          c.in("base") ? c.type_in("base") : act},
         c.in("base"), c.in("table"), c.in("index"), c.in("table2"), c.in("index2"), c.out("y"));
}

void run_segment_sum(const CpuCall<plan::OpKind::segment_sum>& c) {
  segment_sum({c.a.batch, c.a.rows / c.a.batch, c.a.cols, c.view_out("y").count / (c.a.batch * c.a.cols),
               c.type_in("x")},
              c.in("x"), c.in("offsets"), c.in("order"), c.out("y"));
}

}  // namespace

CpuRows graph_ops() {
  static constexpr CpuRow kRows[] = {row<run_gather>, row<run_segment_sum>};
  return kRows;
}

}  // namespace isobar::cpu
