// Shared by all kernel files: element types as floats, packed accesses, warp sums, and dispatch from a DType
// to a template.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <stdexcept>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/runtime/device.h"

namespace isobar::cuda {

constexpr int kThreads = 256, kBlockWarps = kThreads / 32;  // default block size

using Bf16 = __nv_bfloat16;
using F16 = __half;

__device__ inline float as_float(float x) {
  return x;
}
__device__ inline float as_float(Bf16 x) {
  return __bfloat162float(x);
}
__device__ inline float as_float(F16 x) {
  return __half2float(x);
}
template <class T>
__device__ inline T as(float x);  // round to nearest even
template <>
__device__ inline float as<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 as<Bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline F16 as<F16>(float x) {
  return __float2half_rn(x);
}

// N neighbours, accessed in units of up to 16 bytes
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T x[N];
};
template <int N, class T>
__device__ inline void load(const T* p, float (&x)[N]) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = as_float(pack.x[i]);
}
template <int N, class T>
__device__ inline void store(T* p, const float (&x)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.x[i] = as<T>(x[i]);
  *reinterpret_cast<Pack<T, N>*>(p) = pack;
}

/// True if all pointers are 16-byte aligned or null, so that packs may begin at multiples of their width.
template <class... P>
bool on_16_bytes(const P*... p) {
  return ((reinterpret_cast<uintptr_t>(p) % 16 == 0) && ...);
}

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
__device__ inline double warp_sum(double x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

/// The block's dynamic shared memory
template <class T>
__device__ inline T* dynamic_shared() {
#ifdef ISOBAR_EMULATED
  return static_cast<T*>(emulator::dynamic_shared());
#else
  extern __shared__ double dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
#endif
}

/// kernel<<<blocks, threads, shared, stream>>>(args...), checked. The emulator
/// (tests/cuda/emulated/emulator.h) runs it on the host, with threads taking turns.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
            [[maybe_unused]] cudaStream_t stream, A... args) {
#ifdef ISOBAR_EMULATED
  emulator::enqueue(
      stream, [=] { emulator::run(blocks, threads, shared, [&] { kernel(static_cast<P>(args)...); }); });
#else
  if (shared > 48 << 10)  // more than every device has without opting in
    ISOBAR_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  // clang-format off
  kernel<<<blocks, threads, shared, stream>>>(static_cast<P>(args)...);
  // clang-format on
  ISOBAR_CUDA(cudaGetLastError());
#endif
}

/// f(T{}) for the type `t`
template <class F>
void by_type(DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::f16:
      return f(F16{});
    case DType::i32:
      break;
  }
  throw std::logic_error("integers have no such kernel");
}

/// f(std::bool_constant) of `flag`
template <class F>
void by_flag(bool flag, F&& f) {
  flag ? f(std::true_type{}) : f(std::false_type{});
}

/// f(V): packs of kWide where they fit, else of one
template <int kWide, class F>
void by_pack(bool fit, F&& f) {
  fit ? f(std::integral_constant<int, kWide>()) : f(std::integral_constant<int, 1>());
}

/// f(T{}, V) with the widest packs that rows of `cols` and the operands allow
template <class F>
void by_widest_pack(DType t, int64_t cols, bool aligned, F&& f) {
  by_type(t, [&](auto type) {
    constexpr int kWide = 16 / sizeof(type);
    by_pack<kWide>(aligned && cols % kWide == 0, [&](auto width) { f(type, width); });
  });
}

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
/// Number of blocks, checked to be launchable.
inline unsigned grid(int64_t blocks) {
  if (blocks < 0 || blocks > 0x7fffffff)
    throw std::logic_error("a grid of " + std::to_string(blocks) + " blocks");
  return static_cast<unsigned>(blocks);
}
/// Blocks of a grid-stride kernel: enough to fill any GPU several times.
inline unsigned filling_grid(int64_t threads_wanted, int threads) {
  const int64_t blocks = ceil_div(threads_wanted, threads);
  return grid(blocks < 132 * 32 ? blocks : 132 * 32);
}

}  // namespace isobar::cuda
