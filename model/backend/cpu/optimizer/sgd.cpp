// Stochastic gradient descent with momentum, one pass.
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {

void sgd(const Sgd& s, int64_t n, float* p, const void* g, float* buf, void* p16, DType type16,
         DType type_g) {
  const auto kernel = kernels().sgd[type16 == DType::f16 ? 1 : 0];
  parallel(n, [&](int t, int threads) {
    in_f32(g, type_g, share(n, t, threads, 64), [&](Range r, const float* gradient) {
      kernel(s, r.end - r.begin, p + r.begin, gradient, buf + r.begin,
             p16 == nullptr ? nullptr : static_cast<uint16_t*>(p16) + r.begin);
    });
  });
}

}  // namespace isobar::cpu
