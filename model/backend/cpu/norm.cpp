// Residual add + layer norm: threads own rows; backward's three column sums are added in thread order.
#include "model/backend/cpu/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

// x and dx in f32 or, `as_act`, as activations
void norm_backward(const ResidualNorm& p, bool as_act, const void* x, const float* mean, const float* rstd,
                   const float* gamma, const void* dh, void* dx, bool first, void* dy_act, float* dgamma,
                   float* dbeta, float* dbias, bool accumulate) {
  const auto kernel = kernels().norm_backward[of(p.act)][as_act ? 1 : 0];
  const int64_t stride = (3 * p.cols + 15) / 16 * 16;
  float* partials = scratch(threads_for(p.rows * p.cols) * stride);
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads, 4);
    kernel(p, r.begin, r.end, x, mean, rstd, gamma, dh, dx, first, dy_act, partials + t * stride);
    barrier();
    const Range c = share(p.cols, t, threads, 16);
    float* const out[3] = {dgamma, dbeta, dbias};
    for (int i = 0; i < 3; ++i)
      if (out[i] != nullptr) sum_parts(partials + i * p.cols, stride, threads, c, out[i], accumulate);
  });
}

}  // namespace

void residual_norm_forward(const ResidualNorm& p, const float* residual, const void* y, const float* gamma,
                           const float* beta, float* x_out, void* h, float* mean, float* rstd) {
  const auto kernel = kernels().norm_forward[of(p.act)];
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads);
    kernel(p, r.begin, r.end, residual, y, gamma, beta, x_out, h, mean, rstd);
  });
}

void residual_add(int64_t n, DType act, const float* residual, const void* y, float* x) {
  const auto kernel = kernels().residual_add[of(act)];
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, 64);  // elements: threads split on cache lines
    kernel(r.end - r.begin, residual + r.begin, static_cast<const char*>(y) + r.begin * size_of(act),
           x + r.begin);
  });
}

void residual_norm_backward(const ResidualNorm& p, const float* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, float* dx, bool first, void* dy_act,
                            float* dgamma, float* dbeta, float* dbias, bool accumulate) {
  norm_backward(p, false, x, mean, rstd, gamma, dh, dx, first, dy_act, dgamma, dbeta, dbias, accumulate);
}

void norm_residual_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, float* dgamma, float* dbeta,
                            float* dbias, bool accumulate) {
  norm_backward(p, true, x, mean, rstd, gamma, dh, dx, true, nullptr, dgamma, dbeta, dbias, accumulate);
}

}  // namespace isobar::cpu
