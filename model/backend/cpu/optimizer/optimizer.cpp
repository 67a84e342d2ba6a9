// Optimizers on flat parameters, some runs of which may have factors on rate and decay.
#include <algorithm>
#include <cmath>

#include "model/backend/cpu/cpu_ops.h"
#include "model/plan/parameter_groups.h"

namespace isobar::cpu {
namespace {

void run_loss_scale(const CpuCall<plan::OpKind::loss_scale>& c) {
  loss_scale({c.a.least, c.a.window}, c.out("norm2"), c.out("scalars"));
}

struct Run {  // of parameters that share factors
  int64_t from, count;
  float lr, weight_decay;
  float grad_scale;
};

// f(run) for each group of parameters, unless the step is skipped
template <plan::OpKind K, class F>
void each_run(const CpuCall<K>& c, const F& f) {
  const float* const scalars = c.in("scalars");
  if (scalars[plan::kUnscale] == 0) return;  // gradients overflowed
  // torch.nn.utils.clip_grad_norm_: min(1, largest / (norm + 1e-6))
  const float* const norm2 = c.in("norm2");
  const float clip = norm2 ? std::min(1.0f, c.a.clip / (std::sqrt(*norm2) + 1e-6f)) : 1.0f;
  const auto run = [&](int64_t from, int64_t count, float rate, float decay) {
    f(Run{from, count, rate * scalars[plan::kLearningRate], decay * c.a.weight_decay,
          clip * scalars[plan::kUnscale]});
  };
  const plan::View& all = c.view_in("groups");
  if (!all) return run(0, c.a.count, 1, 1);
  const plan::ParameterGroup* const groups = c.in("groups");
  const auto count = static_cast<int64_t>(all.count * size_of(DType::i32) / sizeof(plan::ParameterGroup));
  for (int64_t g = 0, from = 0; g < count; ++g) {
    const int64_t end = std::min<int64_t>(c.a.count, groups[g].end * plan::kGroupElements);
    if (end > from) run(from, end - from, groups[g].lr, groups[g].decay);
    from = end;
  }
}

template <class T>
T* from(T* begin, const Run& r, int64_t bytes = 1) {
  return begin ? begin + r.from * bytes : nullptr;
}

void run_adam(const CpuCall<plan::OpKind::adam>& c) {
  const float* const scalars = c.in("scalars");
  float *const p = c.out("param"), *const m = c.out("m"), *const v = c.out("v");
  const std::byte* const grad = c.in("grad");
  uint16_t* const p16 = c.out("param16");
  each_run(c, [&](const Run& r) {
    adam({r.lr, c.a.beta1, c.a.beta2, c.a.eps, r.weight_decay, c.a.decoupled,
          static_cast<int64_t>(scalars[plan::kStep]), r.grad_scale},
         r.count, from(p, r), from(grad, r, size_of(c.type_in("grad"))), from(m, r), from(v, r), from(p16, r),
         c.type(c.view_out("param16"), DType::bf16), c.type_in("grad"));
  });
}

void run_sgd(const CpuCall<plan::OpKind::sgd>& c) {
  float *const p = c.out("param"), *const momentum = c.out("momentum");
  const std::byte* const grad = c.in("grad");
  uint16_t* const p16 = c.out("param16");
  each_run(c, [&](const Run& r) {
    sgd({r.lr, c.a.momentum, r.weight_decay, r.grad_scale}, r.count, from(p, r),
        from(grad, r, size_of(c.type_in("grad"))), from(momentum, r), from(p16, r),
        c.type(c.view_out("param16"), DType::bf16), c.type_in("grad"));
  });
}

}  // namespace

CpuRows optimizer_ops() {
  static constexpr CpuRow kRows[] = {row<run_loss_scale>, row<run_adam>, row<run_sgd>};
  return kRows;
}

}  // namespace isobar::cpu
