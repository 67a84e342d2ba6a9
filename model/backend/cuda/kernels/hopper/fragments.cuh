// Accumulators of attention's products on Hopper: where a thread's registers lie, and how they become
// operands.
#pragma once
#include <stdexcept>
#include <string>

#include "model/backend/cuda/kernels/hopper/instructions.cuh"

namespace isobar::cuda::hopper {

constexpr int kTile = 64;                                                    // rows of a warpgroup's products
constexpr int kLeastWidth = 32, kMostWidth = 256, kMostWidthBackward = 192;  // of heads
constexpr float kLog2E = 1.4426950408889634f;

__device__ inline int warpgroup() {
  return uniform(static_cast<int>(threadIdx.x) / kGroup);
}

// A thread's part of a warpgroup's [64, N] accumulators: register 4 f + i is row first_row() + 8 (i / 2),
// column 8 f + first_column() + i % 2.
__device__ inline int first_row() {
  return static_cast<int>(threadIdx.x) % kGroup / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
}
__device__ inline int first_column() {
  return static_cast<int>(threadIdx.x) % 4 * 2;
}

template <class T>
__device__ inline uint32_t two(float x, float y) {  // x in the lower half
  const T both[2] = {as<T>(x), as<T>(y)};
  uint32_t w;
  __builtin_memcpy(&w, both, 4);
  return w;
}
// [64, 16 kSteps] accumulators in 16 bits: words[k] are the registers of an operand's 16 columns from 16 k on
template <class T, int kSteps>
__device__ inline void round_operand(const float (&x)[8 * kSteps], uint32_t (&words)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) words[k][i] = two<T>(x[8 * k + 2 * i], x[8 * k + 2 * i + 1]);
}
// Such an operand of 64 columns to a panel of 64 rows
__device__ inline void store_operand(const uint32_t (&words)[4][4], uint32_t panel) {
  // This thread addresses one of the warp's 16 rows, columns 0 or 8 of each 16.
  const int lane = static_cast<int>(threadIdx.x) % 32, row = first_row() / 16 * 16 + lane % 16;
  const uint32_t at = panel + static_cast<uint32_t>(byte_in_panel(row, lane / 16 * 8));
#pragma unroll
  for (int k = 0; k < 4; ++k) store_matrices<false>(at ^ static_cast<uint32_t>(k * kInnerStep * 2), words[k]);
}
// Such an operand transposed, from a panel's row `first` on, a multiple of 8
template <int kSteps>
__device__ inline void store_transposed(const uint32_t (&words)[kSteps][4], uint32_t panel, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t at = panel + static_cast<uint32_t>(byte_in_panel(first + lane / 16 * 8 + lane % 8,
                                                                  first_row() / 16 * 16 + lane / 8 % 2 * 8));
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    store_matrices<true>(at + static_cast<uint32_t>(k * kInnerStep * kRowBytes), words[k]);
}

/// f(std::integral_constant) of a head's width, a multiple of 16 from kLeastWidth to kMost
template <int kMost, int kWidth = kLeastWidth, class F>
void by_width(int64_t d, F&& f) {
  if (d == kWidth) return f(std::integral_constant<int, kWidth>());
  if constexpr (kWidth < kMost)
    by_width<kMost, kWidth + kInnerStep>(d, f);
  else
    throw std::logic_error("attention on Hopper with heads of " + std::to_string(d) + " columns");
}

// One past the last key that a query sees
__device__ inline int keys_end(const Attention& a, int query) {
  const int keys = static_cast<int>(a.tk), after = static_cast<int>(a.shift()) + query + 1;
  return a.causal && after < keys ? after : keys;
}

}  // namespace isobar::cuda::hopper
