// Adam and AdamW, one pass.
#include <algorithm>
#include <cmath>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/widen.h"
#include "model/plan/plan.h"

namespace isobar::cpu {

void adam(const Adam& a, int64_t n, float* p, const void* g, float* m, float* v, void* p16, DType type16,
          DType type_g) {
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
    in_f32(g, type_g, share(n, t, threads, 64), [&](Range r, const float* gradient) {
      kernel(f, r.end - r.begin, p + r.begin, gradient, m + r.begin, v + r.begin,
             p16 == nullptr ? nullptr : static_cast<uint16_t*>(p16) + r.begin);
    });
  });
}

// As PyTorch's GradScaler: backoff by a half, growth by two.
void loss_scale(const LossScale& p, float* norm2, float* scalars) {
  const float scale = scalars[plan::kLossScale];
  if (!std::isfinite(*norm2)) {
    scalars[plan::kUnscale] = 0;
    scalars[plan::kLossScale] = std::max(scale / 2, p.least);
    scalars[plan::kGoodSteps] = 0;
    return;
  }
  *norm2 = *norm2 / scale / scale;
  scalars[plan::kUnscale] = 1 / scale;
  scalars[plan::kStep] += 1;
  scalars[plan::kGoodSteps] += 1;
  if (static_cast<int64_t>(scalars[plan::kGoodSteps]) < p.window) return;
  scalars[plan::kGoodSteps] = 0;
  if (std::isfinite(scale * 2)) scalars[plan::kLossScale] = scale * 2;
}

}  // namespace isobar::cpu
