// Graph networks: gathers by constant indices and sums over segments (one thread each, in row order, so the
// number of threads does not matter).
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

}  // namespace isobar::cpu
