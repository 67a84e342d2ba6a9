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
  const int64_t per = static_cast<int64_t>(sizeof(Unit)) / size_of(c.t);
  Blocks b{static_cast<uint32_t>(c.extent[1]),
           static_cast<uint32_t>(c.extent[2]),
           static_cast<uint32_t>(c.n / per),
           {},
           {}};
  for (int d = 0; d < 3; ++d) b.from[d] = c.from[d] / per, b.to[d] = c.to[d] / per;
  const int64_t units = c.extent[0] * c.extent[1] * c.extent[2] * (c.n / per);
  launch(copy_kernel<Unit>, filling_grid(units, kThreads), kThreads, 0, stream, b, units, x, y);
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

void residual_add(int64_t n, DType act, const void* residual, const void* y, void* x, DType of_stream,
                  cudaStream_t stream) {
  if (n == 0) return;
  by_types(act, of_stream, [&](auto type, auto type_of_stream) {
    using T = decltype(type);
    using X = decltype(type_of_stream);
    by_pack<8>(n % 8 == 0 && on_16_bytes(residual, y, x), [&](auto width) {
      launch(residual_add_kernel<T, X, width()>, filling_grid(n / width(), kThreads), kThreads, 0, stream, n,
             residual, y, x);
    });
  });
}

void activation(Activation f, int64_t n, DType act, const void* u, void* g, cudaStream_t stream) {
  if (n == 0) return;
  by_widest_pack(act, n, on_16_bytes(u, g), [&](auto type, auto width) {
    using T = decltype(type);
    by_activation(f, [&](auto by_function) {
      launch(activation_kernel<T, width(), by_function()>, filling_grid(n / width(), kThreads), kThreads, 0,
             stream, n, u, g);
    });
  });
}

void cast(int64_t n, DType from, DType to, const void* x, void* y, bool accumulate, cudaStream_t stream) {
  if (n == 0) return;
  by_type(from, [&](auto from_type) {
    by_type(to, [&](auto to_type) {
      using From = decltype(from_type);
      using To = decltype(to_type);
      by_pack<8>(n % 8 == 0 && on_16_bytes(x, y), [&](auto width) {
        launch(cast_kernel<From, To, width()>, filling_grid(n / width(), kThreads), kThreads, 0, stream, n, x,
               y, accumulate);
      });
    });
  });
}

void copy(const Copy& c, const void* x, void* y, cudaStream_t stream) {
  const int64_t blocks = c.extent[0] * c.extent[1] * c.extent[2];
  if (blocks * c.n == 0) return;
  const int64_t size = size_of(c.t);
  if (blocks == 1) {
    ISOBAR_CUDA(cudaMemcpyAsync(y, x, static_cast<size_t>(c.n * size), cudaMemcpyDefault, stream));
    return;
  }
  // the widest unit that divides all addresses and lengths
  const auto fits = [&](int64_t bytes) {
    int64_t all = reinterpret_cast<int64_t>(x) | reinterpret_cast<int64_t>(y) | c.n * size;
    for (int d = 0; d < 3; ++d)
      if (c.extent[d] > 1) all |= c.from[d] * size | c.to[d] * size;
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

void run_zero(const CudaCall<plan::OpKind::zero>& c) {
  const int64_t bytes = c.view_out("x").count * size_of(c.type_out("x"));
  ISOBAR_CUDA(cudaMemsetAsync(c.out("x"), 0, static_cast<size_t>(bytes), c.stream));
}

void run_cast(const CudaCall<plan::OpKind::cast>& c) {
  cast(c.a.count, c.type_in("x"), c.type_out("y"), c.in("x"), c.out("y"), c.a.accumulate, c.stream);
}

void run_copy(const CudaCall<plan::OpKind::copy>& c) {
  copy(copy_of(c.a, c.type_in("x")), c.in("x"), c.out("y"), c.stream);
}

}  // namespace

CudaRows pointwise_ops() {
  static constexpr CudaRow kRows[] = {row<run_zero>, row<run_cast>, row<run_copy>};
  return kRows;
}

}  // namespace isobar::cuda
