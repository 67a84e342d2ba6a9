// SwiGLU: threads own rows.
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void swiglu(int64_t rows, int64_t cols, DType act, const void* u, void* g, const float* scale) {
  const auto kernel = kernels().swiglu[of(act)];
  const int64_t row = cols * size_of(act);
  parallel(rows * cols, [&](int t, int threads) {
    const Range r = share(rows, t, threads);
    kernel(r.end - r.begin, cols, static_cast<const char*>(u) + 2 * r.begin * row,
           scale == nullptr ? nullptr : scale + r.begin, static_cast<char*>(g) + r.begin * row);
  });
}

void swiglu_backward(int64_t rows, int64_t cols, DType act, const void* u, const void* dg, void* du,
                     const float* scale, float* dscale) {
  const auto kernel = kernels().swiglu_backward[of(act)];
  const int64_t row = cols * size_of(act);
  parallel(rows * cols, [&](int t, int threads) {
    const Range r = share(rows, t, threads);
    kernel(r.end - r.begin, cols, static_cast<const char*>(u) + 2 * r.begin * row,
           static_cast<const char*>(dg) + r.begin * row, scale == nullptr ? nullptr : scale + r.begin,
           static_cast<char*>(du) + 2 * r.begin * row, dscale == nullptr ? nullptr : dscale + r.begin);
  });
}

// ---- ops ----

namespace {

// Rows that there are: those expected, or as many as data says
template <class Call>
int64_t rows_of(const Call& c) {
  const int32_t* const offsets = c.in("offsets");
  return offsets == nullptr ? c.a.rows : offsets[c.view_in("offsets").count - 1];
}

void run_swiglu(const CpuCall<plan::OpKind::swiglu>& c) {
  swiglu(rows_of(c), c.a.cols, c.type_in("u"), c.in("u"), c.out("g"), c.in("scale"));
}

void run_swiglu_backward(const CpuCall<plan::OpKind::swiglu_backward>& c) {
  swiglu_backward(rows_of(c), c.a.cols, c.type_in("u"), c.in("u"), c.in("dg"), c.out("du"), c.in("scale"),
                  c.out("dscale"));
}

}  // namespace

CpuRows swiglu_ops() {
  static constexpr CpuRow kRows[] = {row<run_swiglu>, row<run_swiglu_backward>};
  return kRows;
}

}  // namespace isobar::cpu
