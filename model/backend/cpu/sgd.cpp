// Stochastic gradient descent with momentum, one pass.
#include "model/backend/cpu/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void sgd(const Sgd& s, int64_t n, float* p, const float* g, float* buf, void* p16, DType type16) {
  const auto kernel = kernels().sgd[type16 == DType::f16 ? 1 : 0];
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, 64);
    kernel(s, r.end - r.begin, p + r.begin, g + r.begin, buf + r.begin,
           p16 == nullptr ? nullptr : static_cast<uint16_t*>(p16) + r.begin);
  });
}

}  // namespace isobar::cpu
