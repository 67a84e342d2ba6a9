// The moving average of weights, and its exchange with them.
#include <algorithm>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void average(int64_t n, float rate, const float* x, float* average) {
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, 64);
    for (int64_t i = r.begin; i < r.end; ++i) average[i] += rate * (x[i] - average[i]);
  });
}

void swap(int64_t n, float* x, float* y) {
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, 64);
    std::swap_ranges(x + r.begin, x + r.end, y + r.begin);
  });
}

// ---- ops ----

namespace {

void run_average(const CpuCall<plan::OpKind::average>& c) {
  const float* const scalars = c.in("scalars");
  if (scalars[plan::kUnscale] == 0) return;
  average(c.a.count, c.a.rate, c.in("param"), c.out("average"));
}

}  // namespace

CpuRows average_ops() {
  static constexpr CpuRow kRows[] = {row<run_average>};
  return kRows;
}

}  // namespace isobar::cpu
