// Passes over a matrix with column sums. A block of 32 x 8 threads owns 32 packs of columns and every eighth
// row of its share; sums are added in shared memory, then across blocks in add_partials, in a fixed order.
#include "model/backend/cuda/kernels/activation.cuh"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"

namespace isobar::cuda {
namespace {

constexpr int kAcross = 32, kDown = 8;

// value(i, x): the contributions of elements from i on to their columns' sums
template <int V, class Value>
__device__ void column_partials_of(int64_t rows, int cols, float* partials, const Value& value) {
  __shared__ float shared[kDown][kAcross * V];
  const int col = (blockIdx.x * kAcross + threadIdx.x) * V;
  float sum[V] = {};
  if (col < cols)
    for (int64_t r = static_cast<int64_t>(blockIdx.y) * kDown + threadIdx.y; r < rows;
         r += static_cast<int64_t>(gridDim.y) * kDown) {
      float x[V];
      value(r * cols + col, x);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += x[i];
    }
#pragma unroll
  for (int i = 0; i < V; ++i) shared[threadIdx.y][i * kAcross + threadIdx.x] = sum[i];
  __syncthreads();
  for (int j = threadIdx.y * kAcross + threadIdx.x; j < kAcross * V; j += kAcross * kDown) {
    const int at = (blockIdx.x * kAcross + j % kAcross) * V + j / kAcross;
    if (at >= cols) continue;
    float total = 0;
#pragma unroll
    for (int d = 0; d < kDown; ++d) total += shared[d][j];
    partials[static_cast<int64_t>(blockIdx.y) * cols + at] = total;
  }
}

// dg and du may be the same: one thread reads an element before it writes it
template <class T, int V, Activation kF>
__global__ void __launch_bounds__(kAcross* kDown)
    activation_backward_kernel(int64_t rows, int cols, const T* __restrict__ u, const T* dg, T* du,
                               float* partials) {
  column_partials_of<V>(rows, cols, partials, [&](int64_t at, float(&d)[V]) {
    float x[V];
    load<V>(u + at, x);
    load<V>(dg + at, d);
#pragma unroll
    for (int i = 0; i < V; ++i) d[i] *= slope_of<T, kF>(x[i]);
    store<V>(du + at, d);
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kAcross* kDown)
    column_sum_kernel(int64_t rows, int cols, const T* __restrict__ x, float* partials) {
  column_partials_of<V>(rows, cols, partials, [&](int64_t at, float(&d)[V]) { load<V>(x + at, d); });
}

__global__ void __launch_bounds__(kAcross* kDown)
    add_partials_kernel(int parts, int outs, int cols, const float* __restrict__ partials, Sums sums,
                        bool accumulate) {
  __shared__ float shared[kDown][kAcross];
  const int c = blockIdx.x * kAcross + threadIdx.x, all = outs * cols;
  float sum = 0;
  if (c < all)
#pragma unroll 4
    for (int p = threadIdx.y; p < parts; p += kDown) sum += partials[static_cast<int64_t>(p) * all + c];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= all) return;
  float total = 0;
#pragma unroll
  for (int d = 0; d < kDown; ++d) total += shared[d][threadIdx.x];
  const int i = c / cols;
  float* out = i == 0 ? sums.out[0] : i == 1 ? sums.out[1] : sums.out[2];
  if (out != nullptr) out[c % cols] = total + (accumulate ? out[c % cols] : 0.0f);
}

template <int V>
__global__ void __launch_bounds__(256)
    period_sum_kernel(int64_t rows, int cols, int64_t period, int64_t row0, const float* __restrict__ dx,
                      float* __restrict__ dpos, bool accumulate) {
  const int col = (blockIdx.y * 256 + threadIdx.x) * V;
  const int64_t position = blockIdx.x;
  if (col >= cols) return;
  float sum[V] = {};
  if (accumulate) load<V>(dpos + position * cols + col, sum);
  // the first row at this position
  for (int64_t r = (position - row0 % period + period) % period; r < rows; r += period) {
    float x[V];
    load<V>(dx + r * cols + col, x);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += x[i];
  }
  store<V>(dpos + position * cols + col, sum);
}

}  // namespace

void add_partials(int parts, int outs, int64_t cols, const float* partials, const Sums& sums, bool accumulate,
                  cudaStream_t stream) {
  if (cols == 0) return;
  launch(add_partials_kernel, grid(ceil_div(outs * cols, kAcross)), dim3(kAcross, kDown), 0, stream, parts,
         outs, static_cast<int>(cols), partials, sums, accumulate);
}

void activation_backward(Activation f, int64_t rows, int64_t cols, DType act, const void* u, const void* dg,
                         void* du, float* dbias, bool accumulate, float* workspace, cudaStream_t stream) {
  if (cols == 0) return;
  const int partials = column_partials(rows, cols);
  by_widest_pack(act, cols, on_16_bytes(u, dg, du), [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int V = width();
    const dim3 blocks(grid(ceil_div(cols, kAcross * V)), partials);
    by_activation(f, [&](auto by_function) {
      launch(activation_backward_kernel<T, V, by_function()>, blocks, dim3(kAcross, kDown), 0, stream, rows,
             static_cast<int>(cols), u, dg, du, workspace);
    });
  });
  if (dbias != nullptr) add_partials(partials, 1, cols, workspace, {{dbias}}, accumulate, stream);
}

void column_sum(int64_t rows, int64_t cols, DType t, const void* x, float* sum, bool accumulate,
                float* workspace, cudaStream_t stream) {
  if (cols == 0) return;
  const int partials = column_partials(rows, cols);
  by_widest_pack(t, cols, on_16_bytes(x), [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int V = width();
    const dim3 blocks(grid(ceil_div(cols, kAcross * V)), partials);
    launch(column_sum_kernel<T, V>, blocks, dim3(kAcross, kDown), 0, stream, rows, static_cast<int>(cols), x,
           workspace);
  });
  add_partials(partials, 1, cols, workspace, {{sum}}, accumulate, stream);
}

void period_sum(int64_t rows, int64_t cols, int64_t period, int64_t row0, const float* dx, float* dpos,
                bool accumulate, cudaStream_t stream) {
  if (period == 0 || cols == 0) return;
  by_pack<4>(cols % 4 == 0 && on_16_bytes(dx, dpos), [&](auto width) {
    constexpr int V = width();
    const dim3 blocks(grid(period), grid(ceil_div(cols, 256 * V)));
    launch(period_sum_kernel<V>, blocks, 256, 0, stream, rows, static_cast<int>(cols), period, row0, dx, dpos,
           accumulate);
  });
}

}  // namespace isobar::cuda
