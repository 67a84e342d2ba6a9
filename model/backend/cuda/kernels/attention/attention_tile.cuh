// Shared code of the scalar attention kernels: tiles in shared memory, as floats for any input type. 256
// threads as 32 x 8: ty is a tile's row, the eight tx share its columns.
#pragma once
#include "model/backend/cuda/kernels/pack.cuh"

namespace isobar::cuda {

constexpr int kAttentionThreads = 256;
constexpr int kAcrossTile = 8;
constexpr int kKeys = 32;    // of a tile
constexpr int kSlack = 256;  // floats after the last tile: columns past d are read, and their results unused

// Rows of a tile are an odd number of floats apart, so that a column of eight rows hits eight banks.
__host__ __device__ inline int tile_ld(int64_t d) {
  return static_cast<int>(d | 1);
}

// f32 to the nearest tf32, ties to even, as round_tf32 of model/base/dtype.h
__device__ inline float nearest_tf32(float x) {
  uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return x;
  u += 0xfffu + ((u >> 13) & 1u);
  return __uint_as_float(u & ~0x1fffu);
}

struct TileShape {
  int d, ld;  // columns; floats between rows in shared memory
  bool tf32;
  __device__ float operand(float x) const { return tf32 ? nearest_tf32(x) : x; }
};

// Loads rows x d elements, rows `ld_from` apart; those past `valid` become 0
template <class T>
__device__ void load_tile(const TileShape& s, int rows, int64_t valid, const T* from, int64_t ld_from,
                          float* tile) {
  for (int i = threadIdx.x; i < rows * s.d; i += kAttentionThreads) {
    const int r = i / s.d, c = i - r * s.d;
    tile[r * s.ld + c] = r < valid ? s.operand(as_float(from[r * ld_from + c])) : 0.0f;
  }
}

// Reduces over the 8 threads of a row
__device__ inline float row_of_8_sum(float x) {
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
__device__ inline float row_of_8_max(float x) {
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

__device__ inline bool sees(const Attention& a, int64_t query, int64_t key) {
  return query < a.tq && key >= a.first_key(query) && key < a.end_of_keys(query);
}

// Summand to the unscaled score of a query that sees the key
__device__ inline float more_of(const Attention& a, int64_t head, int64_t query, int64_t key) {
  const float more = key == a.tk - 1 ? a.last_more : 0.0f;
  return a.bias ? more + a.bias[(head * a.tk + key) * a.tq + query] * (1.0f / a.scale) : more;
}

template <class T>
struct BackwardOperands {
  const T *q, *k, *v, *o, *d_o;
  const float *lse, *delta;
  T *dq, *dk, *dv;
};
template <class T>
BackwardOperands<T> backward_operands(const void* q, const void* k, const void* v, const void* o,
                                      const void* d_o, const float* lse, const float* delta, void* dq,
                                      void* dk, void* dv) {
  const auto in = [](const void* p) { return static_cast<const T*>(p); };
  const auto out = [](void* p) { return static_cast<T*>(p); };
  return {in(q), in(k), in(v), in(o), in(d_o), lse, delta, out(dq), out(dk), out(dv)};
}

/// f(kColumns), with the fewest columns a thread such that eight threads cover d
template <class F>
void by_head_dim(const Attention& a, F&& f) {
  if (a.d <= 64) return f(std::integral_constant<int, 8>());
  if (a.d <= 128) return f(std::integral_constant<int, 16>());
  if (a.d <= 256) return f(std::integral_constant<int, 32>());
  throw std::logic_error("attention heads of " + std::to_string(a.d) +
                         " columns: the GPU's kernels take 256 at most");
}

}  // namespace isobar::cuda
