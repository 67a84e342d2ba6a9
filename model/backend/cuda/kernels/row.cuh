// Rows in the registers of R threads, a warp or a whole block: kPacks packs of 4 elements each.
#pragma once
#include <type_traits>

#include "model/backend/cuda/kernels/pack.cuh"

namespace isobar::cuda {

constexpr int kPacks = 4;  // of 4 elements, a thread

template <int R>
constexpr int kThreadsOf = R < 128 ? 128 : R;

/// Sum over the R threads of a row
template <int R>
__device__ float row_sum(float x, float* shared) {
  x = warp_sum(x);
  if constexpr (R > 32) {
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = warp_sum(threadIdx.x % 32 < R / 32 ? shared[threadIdx.x % 32] : 0.0f);
    __syncthreads();  // shared is used again
  }
  return x;
}

/// f(R) with the fewest threads that hold a row, if any do
template <int kMost, class F>
bool by_width(int64_t cols, F&& f) {
  const int64_t packs = cols / 4;
  if (cols % 4 != 0) return false;
  if (packs <= 32 * kPacks) return f(std::integral_constant<int, 32>()), true;
  if (packs <= 128 * kPacks) return f(std::integral_constant<int, 128>()), true;
  if (packs <= 256 * kPacks) return f(std::integral_constant<int, 256>()), true;
  if constexpr (kMost >= 1024)
    if (packs <= 1024 * kPacks) return f(std::integral_constant<int, 1024>()), true;
  return false;
}

/// f(T{}, X{}) for activations of type `act` and a stream of type `stream`: f32, or the same
template <class F>
void by_types(DType act, DType stream, F&& f) {
  by_type(act, [&](auto type) {
    if (stream == act)
      f(type, type);
    else
      f(type, float{});
  });
}

}  // namespace isobar::cuda
