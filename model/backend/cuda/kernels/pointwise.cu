// Elementwise passes and strided copies: packs of 16 bytes (of the narrower type), grid-stride loops.
#include "model/backend/cuda/kernels/activation.cuh"
#include "model/backend/cuda/kernels/cuda_ops.h"
#include "model/backend/cuda/kernels/row.cuh"

namespace isobar::cuda {
namespace {

// f(i) for every V-th i below n
template <int V, class F>
__device__ inline void each(int64_t n, const F& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * V;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n; i += step) f(i);
}

template <class T, class X, int V>
__global__ void __launch_bounds__(kThreads)
    residual_add_kernel(int64_t n, const X* residual, const T* y, X* x) {
  each<V>(n, [&](int64_t i) {  // x may be the residual, so no __restrict__
    float a[V], b[V];
    load<V>(residual + i, a);
    load<V>(y + i, b);
#pragma unroll
    for (int k = 0; k < V; ++k) a[k] += b[k];
    store<V>(x + i, a);
  });
}

template <class T, int V, Activation kF>
__global__ void __launch_bounds__(kThreads)
    activation_kernel(int64_t n, const T* __restrict__ u, T* __restrict__ g) {
  each<V>(n, [&](int64_t i) {
    float x[V];
    load<V>(u + i, x);
#pragma unroll
    for (int k = 0; k < V; ++k) x[k] = activation_of<T, kF>(x[k]);
    store<V>(g + i, x);
  });
}

template <class From, class To, int V>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(int64_t n, const From* __restrict__ x, To* __restrict__ y, bool accumulate) {
  each<V>(n, [&](int64_t i) {
    float a[V], b[V];
    load<V>(x + i, a);
    if (accumulate) {
      load<V>(y + i, b);
#pragma unroll
      for (int k = 0; k < V; ++k) a[k] += b[k];
    }
    store<V>(y + i, a);
  });
}

struct Blocks {  // a Copy in units of sizeof(Unit) bytes
  uint32_t extent1, extent2, n;
  int64_t from[3], to[3];
};
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(Blocks c, int64_t units, const Unit* __restrict__ x, Unit* __restrict__ y) {
  each<1>(units, [&](int64_t i) {
    const int64_t block = i / c.n;
    const auto within = static_cast<uint32_t>(i - block * c.n);
    const int64_t plane = block / c.extent2;
    const auto k = static_cast<uint32_t>(block - plane * c.extent2);
    const int64_t first = plane / c.extent1;
    const auto j = static_cast<uint32_t>(plane - first * c.extent1);
    y[first * c.to[0] + j * c.to[1] + k * c.to[2] + within] =
        x[first * c.from[0] + j * c.from[1] + k * c.from[2] + within];
  });
}

template <class Unit>
void copy_units(const Copy& c, const void* x, void* y, cudaStream_t stream) {
  const int64_t per = static_cast<int64_t>(sizeof(Unit)) / c.element_bytes;
  Blocks b{static_cast<uint32_t>(c.extent[1]),
           static_cast<uint32_t>(c.extent[2]),
           static_cast<uint32_t>(c.n / per),
           {},
           {}};
  for (int d = 0; d < 3; ++d) b.from[d] = c.from[d] / per, b.to[d] = c.to[d] / per;
  const int64_t units = c.extent[0] * c.extent[1] * c.extent[2] * (c.n / per);
  launch(copy_kernel<Unit>, filling_grid(units, kThreads), kThreads, 0, stream, b, units,
         static_cast<const Unit*>(x), static_cast<Unit*>(y));
}

// Random sign and fraction halves whose exponents put each number in (0.5, 2) as f16 and bf16, and the upper
// one as f32
__global__ void __launch_bounds__(kThreads) noise_kernel(int64_t words, uint32_t* x) {
  each<1>(words, [&](int64_t i) {
    uint32_t h = static_cast<uint32_t>(i) * 0x9e3779b9u;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    x[i] = ((h ^ (h >> 13)) & 0x80ff80ffu) | 0x3f003f00u;
  });
}

}  // namespace

void fill_noise(int64_t bytes, void* x, cudaStream_t stream) {
  if (bytes < 4) return;
  launch(noise_kernel, filling_grid(bytes / 4, kThreads), kThreads, 0, stream, bytes / 4,
         static_cast<uint32_t*>(x));
}

void residual_add(int64_t n, DType act, const void* residual, const void* y, void* x, cudaStream_t stream,
                  DType of_stream) {
  if (n == 0) return;
  by_types(act, of_stream, [&](auto type, auto type_of_stream) {
    using T = decltype(type);
    using X = decltype(type_of_stream);
    const auto* from = static_cast<const X*>(residual);
    const auto* add = static_cast<const T*>(y);
    auto* sum = static_cast<X*>(x);
    if (n % 8 == 0 && on_16_bytes(residual, y, x))
      launch(residual_add_kernel<T, X, 8>, filling_grid(n / 8, kThreads), kThreads, 0, stream, n, from, add,
             sum);
    else
      launch(residual_add_kernel<T, X, 1>, filling_grid(n, kThreads), kThreads, 0, stream, n, from, add, sum);
  });
}

void activation(Activation f, int64_t n, DType act, const void* u, void* g, cudaStream_t stream) {
  if (n == 0) return;
  by_type(act, [&](auto type) {
    using T = decltype(type);
    constexpr int V = 16 / sizeof(T);
    const auto* x = static_cast<const T*>(u);
    auto* y = static_cast<T*>(g);
    by_activation(f, [&](auto by_function) {
      if (n % V == 0 && on_16_bytes(u, g))
        launch(activation_kernel<T, V, by_function()>, filling_grid(n / V, kThreads), kThreads, 0, stream, n,
               x, y);
      else
        launch(activation_kernel<T, 1, by_function()>, filling_grid(n, kThreads), kThreads, 0, stream, n, x,
               y);
    });
  });
}

void cast(int64_t n, DType from, DType to, const void* x, void* y, bool accumulate, cudaStream_t stream) {
  if (n == 0) return;
  by_type(from, [&](auto from_type) {
    by_type(to, [&](auto to_type) {
      using From = decltype(from_type);
      using To = decltype(to_type);
      const auto* a = static_cast<const From*>(x);
      auto* b = static_cast<To*>(y);
      if (n % 8 == 0 && on_16_bytes(x, y))
        launch(cast_kernel<From, To, 8>, filling_grid(n / 8, kThreads), kThreads, 0, stream, n, a, b,
               accumulate);
      else
        launch(cast_kernel<From, To, 1>, filling_grid(n, kThreads), kThreads, 0, stream, n, a, b, accumulate);
    });
  });
}

void copy(const Copy& c, const void* x, void* y, cudaStream_t stream) {
  const int64_t blocks = c.extent[0] * c.extent[1] * c.extent[2];
  if (blocks * c.n == 0) return;
  if (blocks == 1) {
    ISOBAR_CUDA(cudaMemcpyAsync(y, x, static_cast<size_t>(c.n * c.element_bytes), cudaMemcpyDefault, stream));
    return;
  }
  // the widest unit that divides all addresses and lengths
  const auto fits = [&](int64_t bytes) {
    int64_t all = reinterpret_cast<int64_t>(x) | reinterpret_cast<int64_t>(y) | c.n * c.element_bytes;
    for (int d = 0; d < 3; ++d)
      if (c.extent[d] > 1) all |= c.from[d] * c.element_bytes | c.to[d] * c.element_bytes;
    return all % bytes == 0;
  };
  Copy used = c;  // strides of axes of extent 1 must not limit the unit
  for (int d = 0; d < 3; ++d)
    if (c.extent[d] == 1) used.from[d] = used.to[d] = 0;
  if (fits(16))
    copy_units<uint4>(used, x, y, stream);
  else if (fits(8))
    copy_units<uint2>(used, x, y, stream);
  else if (fits(4))
    copy_units<uint32_t>(used, x, y, stream);
  else
    copy_units<uint16_t>(used, x, y, stream);
}

// ---- ops ----

namespace {

void run_residual_add(const CudaCall<plan::OpKind::residual_add>& c) {
  c.a.each_run([&](int64_t from, int64_t row, int64_t rows) {
    const int64_t n = rows * c.a.cols;
    const auto part = [&](const plan::View& v, int64_t first) { return c.at(v.slice(first * c.a.cols, n)); };
    residual_add(n, c.type_in("y"), part(c.view_in("residual"), from), part(c.view_in("y"), row),
                 part(c.view_out("x"), row), c.stream, c.type_in("residual"));
  });
}

void run_activation(const CudaCall<plan::OpKind::activation>& c) {
  activation(c.a.function, c.a.rows * c.a.cols, c.type_in("u"), c.in("u"), c.out("g"), c.stream);
}

void run_zero(const CudaCall<plan::OpKind::zero>& c) {
  const int64_t bytes = c.view_out("x").count * size_of(c.type_out("x"));
  ISOBAR_CUDA(cudaMemsetAsync(c.out("x"), 0, static_cast<size_t>(bytes), c.stream));
}

void run_cast(const CudaCall<plan::OpKind::cast>& c) {
  cast(c.a.count, c.type_in("x"), c.type_out("y"), c.in("x"), c.out("y"), c.a.accumulate, c.stream);
}

void run_copy(const CudaCall<plan::OpKind::copy>& c) {
  copy({{c.a.extent[0], c.a.extent[1], c.a.extent[2]},
        {c.a.from[0], c.a.from[1], c.a.from[2]},
        {c.a.to[0], c.a.to[1], c.a.to[2]},
        c.a.run,
        size_of(c.type_in("x"))},
       c.in("x"), c.out("y"), c.stream);
}

}  // namespace

CudaRows pointwise_ops() {
  static constexpr CudaRow kRows[] = {row<run_residual_add>, row<run_activation>, row<run_zero>,
                                      row<run_cast>, row<run_copy>};
  return kRows;
}

}  // namespace isobar::cuda
