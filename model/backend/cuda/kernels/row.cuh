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

/// A block's sums by column, of which its threads hold those of their elements, to out [kSums][cols].
/// `totals`: kSums * kPacks * 4 * R floats, for blocks of several rows
template <int R, int kSums>
__device__ void store_sums(const float (&sums)[kSums][kPacks][4], int cols, float* totals, float* out) {
  constexpr int kRows = kThreadsOf<R> / R, kStride = kPacks * 4 * R;
  const int lane = threadIdx.x % R;
  if constexpr (kRows == 1) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (lane + k * R >= cols / 4) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) store<4>(out + s * cols + (lane + k * R) * 4, sums[s][k]);
    }
  } else {  // the rows' warps in sequence
#pragma unroll 1
    for (int turn = 0; turn < kRows; ++turn) {
      if (static_cast<int>(threadIdx.x) / R == turn) {
#pragma unroll
        for (int k = 0; k < kPacks; ++k)
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int s = 0; s < kSums; ++s) {
              float* total = totals + s * kStride + (lane + k * R) * 4 + i;
              *total = sums[s][k][i] + (turn > 0 ? *total : 0.0f);
            }
      }
      __syncthreads();
    }
    for (int j = threadIdx.x; j < cols; j += kThreadsOf<R>)
#pragma unroll
      for (int s = 0; s < kSums; ++s) out[s * cols + j] = totals[s * kStride + j];
  }
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
