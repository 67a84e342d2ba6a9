// Residual add + layer norm: threads own rows; backward's three column sums are added in thread order.
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/widen.h"

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

void residual_norm_forward(const ResidualNorm& p, const void* residual, const void* y, const float* gamma,
                           const float* beta, void* x_out, void* h, float* mean, float* rstd) {
  const auto kernel = kernels().norm_forward[of(p.act)][p.stream == p.act ? 1 : 0];
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range r = share(p.rows, t, threads);
    kernel(p, r.begin, r.end, residual, y, gamma, beta, x_out, h, mean, rstd);
  });
}

void residual_add(int64_t n, DType act, const void* residual, const void* y, void* x, DType stream) {
  const KernelTable& k = kernels();
  parallel(n, [&](int t, int threads) {
    float sum[kBlock];  // where the stream is not f32
    // elements: threads split on cache lines
    in_f32(y, act, share(n, t, threads, 64), [&](Range r, const float* part) {
      for (int64_t i = r.begin; i < r.end; i += kBlock) {
        const int64_t block = std::min(kBlock, r.end - i), at = i * size_of(stream);
        const void* const from = static_cast<const char*>(residual) + at;
        void* const to = static_cast<char*>(x) + at;
        float* const values = stream == DType::f32 ? static_cast<float*>(to) : sum;
        if (values != from) k.cast[of(stream)][of(DType::f32)](block, from, values);
        k.add(block, part + (i - r.begin), values);
        if (values == sum) k.cast[of(DType::f32)][of(stream)](block, sum, to);
      }
    });
  });
}

void residual_norm_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, bool first, void* dy_act,
                            float* dgamma, float* dbeta, float* dbias, bool accumulate) {
  norm_backward(p, p.stream == p.act, x, mean, rstd, gamma, dh, dx, first, dy_act, dgamma, dbeta, dbias,
                accumulate);
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

void norm_residual_backward(const ResidualNorm& p, const void* x, const float* mean, const float* rstd,
                            const float* gamma, const void* dh, void* dx, float* dgamma, float* dbeta,
                            float* dbias, bool accumulate) {
  norm_backward(p, true, x, mean, rstd, gamma, dh, dx, true, nullptr, dgamma, dbeta, dbias, accumulate);
}

}  // namespace isobar::cpu
