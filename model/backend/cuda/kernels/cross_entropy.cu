// Softmax and its cross-entropy: one warp a row, whose lanes take every 32nd column.
#include "model/backend/cuda/kernels/cuda_ops.h"
#include "model/backend/cuda/kernels/pack.cuh"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

__device__ inline float warp_max(float x) {  // NaN if any is
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = other > x || other != other ? other : x;
  }
  return x;
}

__device__ inline int64_t warp_min(int64_t x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const int64_t other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = other < x ? other : x;
  }
  return x;
}

__device__ inline int64_t row_of_warp() {
  return static_cast<int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
}

template <class L>
__device__ int64_t column_of(const Classes& c, const L* labels, int64_t row) {
  return static_cast<int64_t>(labels[row]) - c.column0;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    max_kernel(Classes c, const T* __restrict__ logits, float* __restrict__ largest) {
  const int64_t row = row_of_warp();
  if (row >= c.rows) return;
  const int lane = threadIdx.x % 32;
  float most = -INFINITY;
  for (int64_t j = lane; j < c.cols - c.padding; j += 32) {
    const float x = as_float(logits[row * c.cols + j]);
    most = x > most || x != x ? x : most;
  }
  most = warp_max(most);
  if (lane == 0) largest[row] = most;
}

template <class T, class L>
__global__ void __launch_bounds__(kThreads)
    classes_kernel(Classes c, const T* __restrict__ logits, const L* __restrict__ labels,
                   const float* __restrict__ largest, float* __restrict__ sums) {
  const int64_t row = row_of_warp();
  if (row >= c.rows) return;
  const int lane = threadIdx.x % 32;
  const float most = largest[row];
  double sum = 0;
  for (int64_t j = lane; j < c.cols - c.padding; j += 32)
    sum += static_cast<double>(expf(as_float(logits[row * c.cols + j]) - most));
  sum = warp_sum(sum);
  if (lane != 0) return;
  const int64_t label = column_of(c, labels, row);
  sums[row] = static_cast<float>(sum);
  sums[c.rows + row] =
      label >= 0 && label < c.cols - c.padding ? as_float(logits[row * c.cols + label]) - most : 0.0f;
}

// logits and gradients may be the same: a lane reads a logit before it writes its gradient. rows_out [2,
// rows]: loss, whether right
template <class T, class L>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(Classes c, const T* logits, const L* __restrict__ labels,
                    const float* __restrict__ largest, const float* __restrict__ sums, float slope,
                    const float* __restrict__ scalars, T* dlogits, float* __restrict__ rows_out) {
  const int64_t row = row_of_warp();
  if (row >= c.rows) return;
  if (scalars != nullptr) slope *= scalars[plan::kLossScale];
  const int lane = threadIdx.x % 32;
  const int64_t label = column_of(c, labels, row), none = c.cols;
  const float most = largest[row], inverse = 1.0f / sums[row];
  int64_t best = none;
  for (int64_t j = lane; j < c.cols - c.padding; j += 32) {
    const float x = as_float(logits[row * c.cols + j]);
    if (best == none && x == most) best = j;
    dlogits[row * c.cols + j] = as<T>(slope * (expf(x - most) * inverse - (j == label ? 1.0f : 0.0f)));
  }
  for (int64_t j = c.cols - c.padding + lane; j < c.cols; j += 32) dlogits[row * c.cols + j] = as<T>(0.0f);
  best = warp_min(best);
  if (lane != 0) return;
  rows_out[row] = logf(sums[row]) - sums[c.rows + row];
  rows_out[c.rows + row] = best == label ? 1.0f : 0.0f;
}

// One block, for a fixed order
__global__ void __launch_bounds__(kThreads)
    metrics_kernel_of_rows(int64_t rows, int64_t tokens, float weight, const float* __restrict__ rows_in,
                           const float* __restrict__ scalars, float* metrics, int outs) {
  __shared__ double shared[kBlockWarps];
  const int64_t counted =
      rows - (scalars == nullptr ? 0 : tokens * static_cast<int64_t>(scalars[plan::kPadding]));
  for (int k = 0; k < outs; ++k) {
    double sum = 0;
    for (int64_t r = threadIdx.x; r < counted; r += kThreads)
      sum += static_cast<double>(rows_in[k * rows + r]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      double total = 0;
      for (int w = 0; w < kBlockWarps; ++w) total += shared[w];
      metrics[k] += static_cast<float>(static_cast<double>(weight) * total);
    }
    __syncthreads();  // shared is used again
  }
}

unsigned blocks_of(const Classes& c) {
  return grid(ceil_div(c.rows, kBlockWarps));
}

template <class F>
void by_label(DType t, const void* labels, F&& f) {
  if (t == DType::i32) return f(static_cast<const int32_t*>(labels));
  f(static_cast<const float*>(labels));
}

}  // namespace

void cross_entropy_max(const Classes& c, const void* logits, float* largest, cudaStream_t stream) {
  by_type(c.act, [&](auto type) {
    using T = decltype(type);
    launch(max_kernel<T>, blocks_of(c), kThreads, 0, stream, c, logits, largest);
  });
}

void cross_entropy_sums(const Classes& c, const void* logits, const void* labels, const float* largest,
                        float* sums, cudaStream_t stream) {
  by_type(c.act, [&](auto type) {
    using T = decltype(type);
    by_label(c.labels, labels, [&]<class L>(const L* of) {
      launch(classes_kernel<T, L>, blocks_of(c), kThreads, 0, stream, c, logits, of, largest, sums);
    });
  });
}

void cross_entropy(const Classes& c, const void* logits, const void* labels, const float* largest,
                   const float* sums, float weight, const float* scalars, void* dlogits, float* metrics,
                   bool scored, float* workspace, cudaStream_t stream) {
  by_type(c.act, [&](auto type) {
    using T = decltype(type);
    by_label(c.labels, labels, [&]<class L>(const L* of) {
      launch(gradient_kernel<T, L>, blocks_of(c), kThreads, 0, stream, c, logits, of, largest, sums, weight,
             c.act == DType::f16 ? scalars : nullptr, dlogits, workspace);
    });
  });
  launch(metrics_kernel_of_rows, 1, kThreads, 0, stream, c.rows, c.tokens, weight, workspace, scalars,
         metrics, scored ? 2 : 1);
}

// ---- ops ----

namespace {

void run_cross_entropy(const CudaCall<plan::OpKind::cross_entropy>& c) {
  cross_entropy(classes_of(c, c.type_in("labels")), c.in("logits"), c.in("labels"), c.in("largest"),
                c.in("sums"), c.a.weight, c.in("scalars"), c.out("dlogits"), c.out("metrics"),
                c.view_out("metrics").count > 1, c.workspace(), c.stream);
}

}  // namespace

CudaRows class_ops() {
  static constexpr CudaRow kRows[] = {row<run_cross_entropy>};
  return kRows;
}

}  // namespace isobar::cuda
