// Dropout whose mask nobody keeps: a thread draws the four numbers of four neighbours.
#include <type_traits>

#include "model/backend/cuda/kernels/pack.cuh"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(DropoutDraw draw, const float* __restrict__ scalars, int64_t first, int64_t n, T* x) {
  if (scalars[kTraining] == 0) return;
  // With a scaled loss kStep counts the steps before this one until the step's end.
  draw.step = static_cast<int64_t>(scalars[kStep]) + (std::is_same_v<T, F16> ? 1 : 0);
  const int64_t group0 = first / 4, groups = (first + n + 3) / 4 - group0;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; g < groups;
       g += static_cast<int64_t>(gridDim.x) * kThreads) {
    const PhiloxWords words = draw.words(group0 + g);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t i = (group0 + g) * 4 + k - first;
      if (i >= 0 && i < n) x[i] = as<T>(as_float(x[i]) * draw.factor(words, k));
    }
  }
}

}  // namespace

void dropout(const DropoutDraw& draw, const float* scalars, int64_t first, int64_t n, DType act, void* x,
             cudaStream_t stream) {
  by_type(act, [&](auto type) {
    using T = decltype(type);
    launch(dropout_kernel<T>, filling_grid(ceil_div(n, 4) + 1, kThreads), kThreads, 0, stream, draw, scalars,
           first, n, static_cast<T*>(x));
  });
}

}  // namespace isobar::cuda
