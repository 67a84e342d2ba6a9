// The moving average of weights, and its exchange with them.
#include <algorithm>

#include "model/backend/cpu/kernels.h"
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

}  // namespace isobar::cpu
