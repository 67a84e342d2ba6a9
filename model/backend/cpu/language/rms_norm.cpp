// Residual add + RMSNorm: threads own rows; backward's column sum is added in thread order.
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void rms_norm(const RmsNorm& p, const void* residual, const void* y, const float* gamma, void* x, void* h,
              float* rstd) {
  const auto kernel = kernels().rms_norm[of(p.act)][p.stream == p.act ? 1 : 0];
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads);
    kernel(p, r.begin, r.end, residual, y, gamma, x, h, rstd);
  });
}

void rms_norm_backward(const RmsNorm& p, const void* x, const float* rstd, const float* gamma, const void* dh,
                       void* dx, bool first, void* dy_act, float* dgamma, bool accumulate) {
  const auto kernel = kernels().rms_norm_backward[of(p.act)][p.stream == p.act ? 1 : 0];
  const int64_t stride = (p.cols + 15) / 16 * 16;
  float* partials = scratch(threads_for(p.rows * p.cols) * stride);
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads);
    kernel(p, r.begin, r.end, x, rstd, gamma, dh, dx, first, dy_act, partials + t * stride);
    barrier();
    if (dgamma != nullptr)
      sum_parts(partials, stride, threads, share(p.cols, t, threads, 16), dgamma, accumulate);
  });
}

}  // namespace isobar::cpu
