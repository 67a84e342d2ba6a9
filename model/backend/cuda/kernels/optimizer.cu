// The optimizer's passes. All scalars of a step (learning rate, number, skip, norm for clipping) are on the
// device, so that a captured step replays with new values.
#include "model/backend/cuda/kernels/cuda_ops.h"
#include "model/backend/cuda/kernels/pack.cuh"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

// The block's sum, on every thread
__device__ double block_sum(double x) {
  __shared__ double shared[kThreads / 32];
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  return warp_sum(threadIdx.x % 32 < kThreads / 32 ? shared[threadIdx.x % 32] : 0.0);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    squared_partials(int64_t n, const T* __restrict__ x, double* partials) {
  double sum = 0;  // f32 within a pack, double across packs
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * V;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n; i += step) {
    float a[V], s = 0;
    load<V>(x + i, a);
#pragma unroll
    for (int k = 0; k < V; ++k) s = fmaf(a[k], a[k], s);
    sum += static_cast<double>(s);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    squared_total(int parts, const double* __restrict__ partials, float* sum, bool accumulate) {
  double total = 0;
  for (int p = threadIdx.x; p < parts; p += kThreads) total += partials[p];
  total = block_sum(total);
  if (threadIdx.x == 0) *sum = static_cast<float>(total + (accumulate ? static_cast<double>(*sum) : 0.0));
}

// As PyTorch's GradScaler: backoff by a half, growth by two.
__global__ void loss_scale_kernel(float least, int64_t window, float* norm2, float* scalars) {
  const float scale = scalars[plan::kLossScale];
  if (!isfinite(*norm2)) {
    scalars[plan::kUnscale] = 0;
    scalars[plan::kLossScale] = fmaxf(scale / 2, least);
    scalars[plan::kGoodSteps] = 0;
    return;
  }
  *norm2 = *norm2 / scale / scale;
  scalars[plan::kUnscale] = 1 / scale;
  scalars[plan::kStep] += 1;
  scalars[plan::kGoodSteps] += 1;
  if (static_cast<int64_t>(scalars[plan::kGoodSteps]) < window) return;
  scalars[plan::kGoodSteps] = 0;
  if (isfinite(scale * 2)) scalars[plan::kLossScale] = scale * 2;
}

// Factor on gradients: unscales, and clips as torch.nn.utils.clip_grad_norm_
__device__ float gradient_scale(const float* scalars, const float* norm2, float grad_clip) {
  const float clip = norm2 != nullptr ? grad_clip / (sqrtf(*norm2) + 1e-6f) : 1.0f;
  // as std::min(1, clip): a NaN norm leaves 1
  return (clip < 1.0f ? clip : 1.0f) * scalars[plan::kUnscale];
}

// The group of element i: runs end on multiples of a thread's elements.
__device__ plan::ParameterGroup group_of(const Groups& g, int64_t i) {
  const auto at = static_cast<int32_t>(i / plan::kGroupElements);
  int low = 0, high = g.count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (at < g.of[middle].end)
      high = middle;
    else
      low = middle + 1;
  }
  return g.of[low];
}

struct AdamConstants {
  Adam a;
  float one_minus_beta1, one_minus_beta2;
};
struct AdamStep {
  float step_size, inverse_sqrt_correction2, shrink, grad_scale;
};

// torch.optim.Adam: p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
template <class G, class P16, int V>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(AdamConstants c, int64_t n, const G* __restrict__ g, const float* __restrict__ scalars,
                const float* __restrict__ norm2, float* __restrict__ p, float* __restrict__ m,
                float* __restrict__ v, P16* __restrict__ p16, Groups groups) {
  if (scalars[plan::kUnscale] == 0) return;  // gradients overflowed
  __shared__ AdamStep shared;
  if (threadIdx.x == 0) {
    const double lr = scalars[plan::kLearningRate], t = floor(static_cast<double>(scalars[plan::kStep]));
    shared.step_size = static_cast<float>(lr / (1.0 - pow(static_cast<double>(c.a.beta1), t)));
    shared.inverse_sqrt_correction2 =
        static_cast<float>(1.0 / sqrt(1.0 - pow(static_cast<double>(c.a.beta2), t)));
    shared.shrink = c.a.adamw ? static_cast<float>(-lr * static_cast<double>(c.a.weight_decay)) : 0.0f;
    shared.grad_scale = gradient_scale(scalars, norm2, c.a.grad_clip);
  }
  __syncthreads();
  const AdamStep f = shared;
  const float decay = c.a.adamw ? 0.0f : c.a.weight_decay;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * V;
#pragma unroll 1
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n; i += step) {
    float w[V], grad[V], m1[V], v1[V], step_size = f.step_size, shrink = f.shrink, l2 = decay;
    if (groups.of != nullptr) {
      const plan::ParameterGroup group = group_of(groups, i);
      step_size *= group.lr;
      shrink *= group.lr * group.decay;
      l2 *= group.decay;
    }
    load<V>(p + i, w);
    load<V>(g + i, grad);
    load<V>(m + i, m1);
    load<V>(v + i, v1);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      w[k] = fmaf(w[k], shrink, w[k]);
      grad[k] = fmaf(w[k], l2, grad[k] * f.grad_scale);
      m1[k] = fmaf(c.one_minus_beta1, grad[k], c.a.beta1 * m1[k]);
      v1[k] = fmaf(c.one_minus_beta2 * grad[k], grad[k], c.a.beta2 * v1[k]);
      w[k] = fmaf(-step_size, m1[k] / fmaf(sqrtf(v1[k]), f.inverse_sqrt_correction2, c.a.eps), w[k]);
    }
    store<V>(m + i, m1);
    store<V>(v + i, v1);
    store<V>(p + i, w);
    if (p16 != nullptr) store<V>(p16 + i, w);
  }
}

// torch.optim.SGD without dampening and Nesterov: buf = momentum buf + grad; p -= lr buf
template <class G, class P16, int V>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(Sgd s, int64_t n, const G* __restrict__ g, const float* __restrict__ scalars,
               const float* __restrict__ norm2, float* __restrict__ p, float* __restrict__ buf,
               P16* __restrict__ p16, Groups groups) {
  if (scalars[plan::kUnscale] == 0) return;
  const float scale = gradient_scale(scalars, norm2, s.grad_clip), lr = scalars[plan::kLearningRate];
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * V;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n; i += step) {
    float w[V], grad[V], b[V], rate = lr, l2 = s.weight_decay;
    if (groups.of != nullptr) {
      const plan::ParameterGroup group = group_of(groups, i);
      rate *= group.lr;
      l2 *= group.decay;
    }
    load<V>(p + i, w);
    load<V>(g + i, grad);
    load<V>(buf + i, b);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      grad[k] = fmaf(w[k], l2, grad[k] * scale);
      b[k] = fmaf(s.momentum, b[k], grad[k]);
      w[k] = fmaf(-rate, b[k], w[k]);
    }
    store<V>(buf + i, b);
    store<V>(p + i, w);
    if (p16 != nullptr) store<V>(p16 + i, w);
  }
}

__global__ void __launch_bounds__(kThreads)
    average_kernel(int64_t n, float rate, const float* __restrict__ x, const float* __restrict__ scalars,
                   float* __restrict__ average) {
  if (scalars[plan::kUnscale] == 0) return;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads)
    average[i] += rate * (x[i] - average[i]);
}

__global__ void __launch_bounds__(kThreads)
    swap_kernel(int64_t n, float* __restrict__ x, float* __restrict__ y) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const float a = x[i];
    x[i] = y[i];
    y[i] = a;
  }
}

// launch(G, P16, V) for gradients in f32 or bf16 and copies in bf16 or f16
template <class Launch>
void by_update(DType g, DType p16, bool packs, const Launch& launch) {
  const auto width = [&](auto grad, auto copy) {
    by_pack<4>(packs, [&](auto of) { launch(grad, copy, of); });
  };
  const auto copied = [&](auto grad) {
    if (p16 == DType::f16)
      width(grad, F16{});
    else
      width(grad, Bf16{});
  };
  if (g == DType::bf16)
    copied(Bf16{});
  else if (g == DType::f32)
    copied(float{});
  else
    throw std::logic_error("gradients are kept in f32 or bf16");
}

}  // namespace

void squared_sum(int64_t n, const void* x, DType t, float* sum, bool accumulate, double* workspace,
                 cudaStream_t stream) {
  const int partials = squared_sum_partials(n);
  by_widest_pack(t, n, on_16_bytes(x), [&](auto type, auto width) {
    using T = decltype(type);
    launch(squared_partials<T, width()>, partials, kThreads, 0, stream, n, x, workspace);
  });
  launch(squared_total, 1, kThreads, 0, stream, partials, workspace, sum, accumulate);
}

void loss_scale(float least, int64_t window, float* norm2, float* scalars, cudaStream_t stream) {
  launch(loss_scale_kernel, 1, 1, 0, stream, least, window, norm2, scalars);
}

void adam(const Adam& a, int64_t n, const void* g, DType type_g, const float* scalars, const float* norm2,
          float* p, float* m, float* v, void* p16, DType type16, const Groups& groups, cudaStream_t stream) {
  if (n == 0) return;
  const AdamConstants c{a, static_cast<float>(1.0 - static_cast<double>(a.beta1)),
                        static_cast<float>(1.0 - static_cast<double>(a.beta2))};
  by_update(type_g, type16, n % 4 == 0 && on_16_bytes(g, p, m, v, p16),
            [&](auto grad, auto copy, auto width) {
              using G = decltype(grad);
              using P16 = decltype(copy);
              constexpr int V = width();
              launch(adam_kernel<G, P16, V>, filling_grid(ceil_div(n, V), kThreads), kThreads, 0, stream, c,
                     n, g, scalars, norm2, p, m, v, p16, groups);
            });
}

void sgd(const Sgd& s, int64_t n, const void* g, DType type_g, const float* scalars, const float* norm2,
         float* p, float* buf, void* p16, DType type16, const Groups& groups, cudaStream_t stream) {
  if (n == 0) return;
  by_update(type_g, type16, n % 4 == 0 && on_16_bytes(g, p, buf, p16), [&](auto grad, auto copy, auto width) {
    using G = decltype(grad);
    using P16 = decltype(copy);
    constexpr int V = width();
    launch(sgd_kernel<G, P16, V>, filling_grid(ceil_div(n, V), kThreads), kThreads, 0, stream, s, n, g,
           scalars, norm2, p, buf, p16, groups);
  });
}

void average(int64_t n, float rate, const float* x, const float* scalars, float* average,
             cudaStream_t stream) {
  if (n == 0) return;
  launch(average_kernel, filling_grid(n, kThreads), kThreads, 0, stream, n, rate, x, scalars, average);
}

void swap(int64_t n, float* x, float* y, cudaStream_t stream) {
  if (n == 0) return;
  launch(swap_kernel, filling_grid(n, kThreads), kThreads, 0, stream, n, x, y);
}

// ---- ops ----

namespace {

void run_squared_sum(const CudaCall<plan::OpKind::squared_sum>& c) {
  squared_sum(c.a.count, c.in("x"), c.type_in("x"), c.out("sum"), c.a.accumulate, c.workspace(), c.stream);
}

void run_loss_scale(const CudaCall<plan::OpKind::loss_scale>& c) {
  loss_scale(c.a.least, c.a.window, c.out("norm2"), c.out("scalars"), c.stream);
}

Groups groups_of(const plan::View& words, const plan::ParameterGroup* of) {
  return {of, static_cast<int>(words.count * size_of(DType::i32) / sizeof(plan::ParameterGroup))};
}

void run_sgd(const CudaCall<plan::OpKind::sgd>& c) {
  sgd({c.a.momentum, c.a.weight_decay, c.a.clip}, c.a.count, c.in("grad"), c.type_in("grad"), c.in("scalars"),
      c.in("norm2"), c.out("param"), c.out("momentum"), c.out("param16"),
      c.type(c.view_out("param16"), DType::bf16), groups_of(c.view_in("groups"), c.in("groups")), c.stream);
}

void run_adam(const CudaCall<plan::OpKind::adam>& c) {
  adam({c.a.beta1, c.a.beta2, c.a.eps, c.a.weight_decay, c.a.decoupled, c.a.clip}, c.a.count, c.in("grad"),
       c.type_in("grad"), c.in("scalars"), c.in("norm2"), c.out("param"), c.out("m"), c.out("v"),
       c.out("param16"), c.type(c.view_out("param16"), DType::bf16),
       groups_of(c.view_in("groups"), c.in("groups")), c.stream);
}

void run_average(const CudaCall<plan::OpKind::average>& c) {
  average(c.a.count, c.a.rate, c.in("param"), c.in("scalars"), c.out("average"), c.stream);
}

}  // namespace

CudaRows optimizer_ops() {
  static constexpr CudaRow kRows[] = {row<run_squared_sum>, row<run_loss_scale>, row<run_adam>, row<run_sgd>,
                                      row<run_average>};
  return kRows;
}

}  // namespace isobar::cuda
