// Graph networks: gathers by constant indices, sums over segments (one thread each, in row order, so the
// number of threads does not matter), and the norm of messages.
#include "model/backend/cpu/kernel_table.h"
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

void norm_residual(const ResidualNorm& p, const void* x, const float* residual, const float* gamma,
                   const float* beta, void* h, float* y, float* mean, float* rstd) {
  const auto kernel = kernels().norm_residual[of(p.act)];
  const int64_t stride = (p.cols + 15) / 16 * 16;
  float* rows = scratch(threads_for(p.rows * p.cols) * stride);
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads);
    kernel(p, r.begin, r.end, x, residual, gamma, beta, h, y, mean, rstd, rows + t * stride);
  });
}

}  // namespace isobar::cpu
