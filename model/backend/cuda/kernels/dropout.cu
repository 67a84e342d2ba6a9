// Dropout by random numbers, which are drawn again where no mask was kept: a thread draws numbers for four
// neighbours.
#include <algorithm>
#include <type_traits>

#include "model/backend/cuda/kernels/cuda_ops.h"
#include "model/backend/cuda/kernels/pack.cuh"
#include "model/backend/dropped_rows.h"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(DropoutDraw draw, const float* __restrict__ scalars, int64_t first, int64_t n, T* x,
                   uint8_t* __restrict__ mask) {
  if (scalars[plan::kTraining] == 0) return;
  // With loss scaling kStep counts the steps before this one until the step's end.
  draw.step = static_cast<int64_t>(scalars[plan::kStep]) + (std::is_same_v<T, F16> ? 1 : 0);
  const int64_t group0 = first / 4, groups = (first + n + 3) / 4 - group0;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; g < groups;
       g += static_cast<int64_t>(gridDim.x) * kThreads) {
    const PhiloxWords words = draw.words(group0 + g);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t i = (group0 + g) * 4 + k - first;
      if (i < 0 || i >= n) continue;
      const float factor = draw.factor(words, k);
      x[i] = as<T>(as_float(x[i]) * factor);
      if (mask != nullptr) mask[i] = factor != 0.0f ? 1 : 0;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_by_mask_kernel(float kept, const float* __restrict__ scalars, const uint8_t* __restrict__ mask,
                           int64_t n, T* x) {
  if (scalars[plan::kTraining] == 0) return;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads)
    x[i] = as<T>(as_float(x[i]) * (mask[i] != 0 ? kept : 0.0f));
}

// Runs of `each` elements with a common factor, distributed over a row of blocks.
template <class T>
__global__ void __launch_bounds__(kThreads)
    drop_runs_kernel(DropoutDraw draw, const float* __restrict__ scalars, int64_t first, int64_t n,
                     int64_t each, T* x) {
  if (scalars[plan::kTraining] == 0) return;
  draw.step = static_cast<int64_t>(scalars[plan::kStep]) + (std::is_same_v<T, F16> ? 1 : 0);
  for (int64_t run = blockIdx.y; run < n; run += gridDim.y) {
    const PhiloxWords words = draw.words((first + run) / 4);
    const int k = static_cast<int>((first + run) % 4);
    const uint32_t word = k == 0 ? words.x[0] : k == 1 ? words.x[1] : k == 2 ? words.x[2] : words.x[3];
    const float factor = draw.factor(PhiloxWords{{word, 0, 0, 0}}, 0);
    T* const mine = x + run * each;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < each;
         i += static_cast<int64_t>(gridDim.x) * kThreads)
      mine[i] = as<T>(as_float(mine[i]) * factor);
  }
}

}  // namespace

void dropout(const DropoutDraw& draw, const float* scalars, int64_t first, int64_t n, int64_t each, DType act,
             void* x, uint8_t* mask, cudaStream_t stream) {
  by_type(act, [&](auto type) {
    using T = decltype(type);
    if (each > 1) {
      const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(ceil_div(each, kThreads), 1024)),
                        static_cast<unsigned>(std::min<int64_t>(n, 1024)));
      return launch(drop_runs_kernel<T>, blocks, kThreads, 0, stream, draw, scalars, first, n, each, x);
    }
    launch(dropout_kernel<T>, filling_grid(ceil_div(n, 4) + 1, kThreads), kThreads, 0, stream, draw, scalars,
           first, n, x, mask);
  });
}

void dropout_by_mask(float rate, const float* scalars, const uint8_t* mask, int64_t n, DType act, void* x,
                     cudaStream_t stream) {
  by_type(act, [&](auto type) {
    using T = decltype(type);
    launch(dropout_by_mask_kernel<T>, filling_grid(n, kThreads), kThreads, 0, stream, 1.0f / (1.0f - rate),
           scalars, mask, n, x);
  });
}

// ---- ops ----

namespace {

// `mask`: bytes, null if none is kept; `read`: the forward pass has written it
template <plan::OpKind K>
void run_dropout(const CudaCall<K>& c, DType act, std::byte* x, uint8_t* mask, bool read) {
  const float* const scalars = c.in("scalars");
  if (scalars == nullptr) return;
  if (read) return dropout_by_mask(c.a.rate, scalars, mask, c.a.rows * c.a.cols, act, x, c.stream);
  const DropoutDraw draw{static_cast<uint64_t>(c.a.seed), static_cast<uint64_t>(c.a.stream), c.a.rate, 0};
  for_dropped_rows(c.a, c.micro, [&](int64_t row, int64_t first, int64_t rows) {
    const int64_t at = row * c.a.cols;
    dropout(draw, scalars, first * c.a.cols, rows * c.a.cols, c.a.each, act, x + at * c.a.each * size_of(act),
            mask != nullptr ? mask + at : nullptr, c.stream);
  });
}

void run_dropout_forward(const CudaCall<plan::OpKind::dropout>& c) {
  run_dropout(c, c.type_in("x"), c.out("x"), c.out("mask"), false);
}

void run_dropout_backward(const CudaCall<plan::OpKind::dropout_backward>& c) {
  run_dropout(c, c.type_in("dx"), c.out("dx"), c.in("mask"), static_cast<bool>(c.view_in("mask")));
}

}  // namespace

CudaRows dropout_ops() {
  static constexpr CudaRow kRows[] = {row<run_dropout_forward>, row<run_dropout_backward>};
  return kRows;
}

}  // namespace isobar::cuda
