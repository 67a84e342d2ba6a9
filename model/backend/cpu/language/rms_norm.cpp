// Residual add + RMSNorm: threads own rows; backward's column sum is added in thread order.
#include "model/backend/cpu/cpu_ops.h"
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

// ---- ops ----

namespace {

RmsNorm norm_of(const plan::NormAttrs& a, DType act, DType stream) {
  return {a.rows, a.cols, a.eps, act, stream, a.heads, a.ld_x, a.ld_h};
}

void run_rms_norm(const CpuCall<plan::OpKind::rms_norm>& c) {
  rms_norm(norm_of(c.a, c.type_out("h"), c.type_in("residual")), c.in("residual"), c.in("y"), c.in("gamma"),
           c.out("x"), c.out("h"), c.out("rstd"));
}

void run_rms_norm_backward(const CpuCall<plan::OpKind::rms_norm_backward>& c) {
  rms_norm_backward(norm_of(c.a, c.type_in("dh"), c.type_in("x")), c.in("x"), c.in("rstd"), c.in("gamma"),
                    c.in("dh"), c.out("dx"), c.a.first, c.out("dy"), c.out("dgamma"), c.a.accumulate);
}

}  // namespace

CpuRows rms_norm_ops() {
  static constexpr CpuRow kRows[] = {row<run_rms_norm>, row<run_rms_norm_backward>};
  return kRows;
}

}  // namespace isobar::cpu
