// Adam and AdamW, one pass.
#include <cmath>

#include "model/backend/cpu/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void adam(const Adam& a, int64_t n, float* p, const float* g, float* m, float* v, void* p16, DType type16) {
  const double beta1 = a.beta1, beta2 = a.beta2, lr = a.lr;
  AdamFactors f;
  f.beta1 = a.beta1;
  f.beta2 = a.beta2;
  f.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  f.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  f.grad_scale = a.grad_scale;
  f.decay = a.adamw ? 0.0f : a.weight_decay;
  f.shrink = a.adamw ? static_cast<float>(-lr * a.weight_decay) : 0.0f;
  f.step_size = static_cast<float>(lr / (1.0 - std::pow(beta1, static_cast<double>(a.step))));
  f.inverse_sqrt_correction2 =
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, static_cast<double>(a.step))));
  f.eps = a.eps;
  const auto kernel = kernels().adam[type16 == DType::f16 ? 1 : 0];
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, 64);
    kernel(f, r.end - r.begin, p + r.begin, g + r.begin, m + r.begin, v + r.begin,
           p16 == nullptr ? nullptr : static_cast<uint16_t*>(p16) + r.begin);
  });
}

}  // namespace isobar::cpu
