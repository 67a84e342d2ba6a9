// Tensor core instructions for attention, on tiles in shared memory: bf16 and f16 unchanged, f32 rounded to
// tf32. A warp holds fragments of 16 x 8 results in the layout of the PTX manual (mma.m16n8k16, mma.m16n8k8:
// group = lane / 4, t = lane % 4).
//
// Uses mma.sync, which A100, H100 and B200 all have. In the emulator (tests/cuda/emulated/emulator.h) a plain
// version gathers the lanes' operands by the same tables.
#pragma once
#include "model/backend/cuda/kernels/attention/attention_tile.cuh"

namespace isobar::cuda {

constexpr int kStreamed = 32;    // rows of the tiles that a block iterates over
constexpr int kFragment = 8;     // columns of a fragment
constexpr int kColumnUnit = 16;  // tiles' width: the head's, rounded up to this with zeros
template <class T>
constexpr int kInner = sizeof(T) == 2 ? 16 : 8;  // of one instruction

// Elements between a tile's rows: an odd multiple of 16 bytes, so that a warp's loads hit different banks.
template <class T>
__host__ __device__ constexpr int mma_ld(int columns) {
  return columns + static_cast<int>(16 / sizeof(T));
}

template <class T>
__device__ inline T operand(float x) {
  if constexpr (sizeof(T) == 4)
    return nearest_tf32(x);
  else
    return as<T>(x);
}

__device__ inline uint32_t word(float x) {
  return __float_as_uint(x);
}
template <class T>
__device__ inline uint32_t word(T x, T y) {  // x in the lower half
  static_assert(sizeof(T) == 2);
  const T both[2] = {x, y};
  uint32_t w;
  __builtin_memcpy(&w, both, 4);
  return w;
}
// The operands of one register at p: two adjacent 16-bit numbers, or one f32.
template <class T>
__device__ inline uint32_t word_at(const T* p) {
  if constexpr (sizeof(T) == 4) {
    return word(*p);
  } else {
    const Pack<T, 2> pair = *reinterpret_cast<const Pack<T, 2>*>(p);
    return word(pair.x[0], pair.x[1]);
  }
}

// c += a b, [16, kInner] times [kInner, 8]
template <class T>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef ISOBAR_EMULATED
  emulator::mma<T>(c, a, b);
#else
#define ISOBAR_MMA(shape)                                                                \
  asm("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                   \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (sizeof(T) == 4)
    ISOBAR_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  else if constexpr (std::is_same_v<T, Bf16>)
    ISOBAR_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  else
    ISOBAR_MMA("m16n8k16.row.col.f32.f16.f16.f32");
#undef ISOBAR_MMA
#endif
}

// 16 rows of a tile from row0 on, kInner columns from k0 on
template <class T>
__device__ inline void load_rows(const T* tile, int ld, int row0, int k0, uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* p = tile + (row0 + lane / 4) * ld + k0 + lane % 4 * (kInner<T> / 8);
  a[0] = word_at(p);
  a[1] = word_at(p + 8 * ld);
  a[2] = word_at(p + kInner<T> / 2);
  a[3] = word_at(p + 8 * ld + kInner<T> / 2);
}

/// c[f] += x[row0 …][:] y[n …][:]', n = n0 + f * n_step: products of rows with rows
template <class T, int kFragments>
__device__ inline void rows_times_rows(float (&c)[kFragments][4], const T* x, const T* y, int ld, int row0,
                                       int n0, int n_step, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 2
  for (int k0 = 0; k0 < columns; k0 += kInner<T>) {
    uint32_t a[4], b[2];
    load_rows(x, ld, row0, k0, a);
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      const T* p = y + (n0 + f * n_step + lane / 4) * ld + k0 + lane % 4 * (kInner<T> / 8);
      b[0] = word_at(p);
      b[1] = word_at(p + kInner<T> / 2);
      multiply_add<T>(c[f], a, b);
    }
  }
}

/// c[f] += w[row0 …][0 … kStreamed] y[0 … kStreamed][n …], for fragments with n = n0 + f * n_step < columns
template <class T, int kFragments>
__device__ inline void rows_times_columns(float (&c)[kFragments][4], const T* w, int ld_w, int row0,
                                          const T* y, int ld, int n0, int n_step, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int k0 = 0; k0 < kStreamed; k0 += kInner<T>) {
    uint32_t a[4], b[2];
    load_rows(w, ld_w, row0, k0, a);
    const T* first = y + (k0 + lane % 4 * (kInner<T> / 8)) * ld + n0 + lane / 4;
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      if (n0 + f * n_step >= columns) break;  // uniform in the warp
      const T *p = first + f * n_step, *second = p + kInner<T> / 2 * ld;
      if constexpr (sizeof(T) == 4) {
        b[0] = word(*p);
        b[1] = word(*second);
      } else {
        b[0] = word(p[0], p[ld]);
        b[1] = word(second[0], second[ld]);
      }
      multiply_add<T>(c[f], a, b);
    }
  }
}

struct MmaShape {
  int d, columns;  // of a head; of a tile
  bool wide;       // all operands' rows and heads are 16-byte aligned
};

// Loads `rows` rows of a head into a tile; rows past `valid` and columns past the head become 0
template <class T>
__device__ void load_mma_tile(const MmaShape& s, int rows, int64_t valid, const T* from, int64_t ld_from,
                              T* tile) {
  const int ld = mma_ld<T>(s.columns);
  if (s.wide) {
    constexpr int kPack = static_cast<int>(16 / sizeof(T));
    const int packs = s.columns / kPack;
    for (int i = static_cast<int>(threadIdx.x); i < rows * packs; i += static_cast<int>(blockDim.x)) {
      const int r = i / packs, c = (i - r * packs) * kPack;
      Pack<T, kPack> pack;
      if (r < valid && c < s.d) {
        pack = *reinterpret_cast<const Pack<T, kPack>*>(from + r * ld_from + c);
        if constexpr (sizeof(T) == 4) {
#pragma unroll
          for (int j = 0; j < kPack; ++j) pack.x[j] = operand<T>(pack.x[j]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kPack; ++j) pack.x[j] = as<T>(0.0f);
      }
      *reinterpret_cast<Pack<T, kPack>*>(tile + r * ld + c) = pack;
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < rows * s.columns; i += static_cast<int>(blockDim.x)) {
    const int r = i / s.columns, c = i - r * s.columns;
    tile[r * ld + c] = operand<T>(r < valid && c < s.d ? as_float(from[r * ld_from + c]) : 0.0f);
  }
}

/// Element i of a fragment's four is in row i / 2 * 8 + group and column 2 t + i % 2.
__device__ inline int row_in_fragment(int i) {
  return static_cast<int>(threadIdx.x) % 32 / 4 + i / 2 * 8;
}
__device__ inline int column_in_fragment(int i) {
  return static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

inline MmaShape mma_shape(const Attention& a, std::initializer_list<const void*> operands) {
  const int64_t pack = 16 / size_of(a.act);
  bool wide = a.d % pack == 0 && a.ld_q % pack == 0 && a.ld_kv % pack == 0 && a.ld_o % pack == 0;
  for (const void* p : operands) wide = wide && on_16_bytes(p);
  const int d = static_cast<int>(a.d);
  return {d, (d + kColumnUnit - 1) / kColumnUnit * kColumnUnit, wide};
}

/// f(kD) for the narrowest register tile that holds a head
template <class F>
void by_mma_width(const Attention& a, F&& f) {
  if (a.d <= 64) return f(std::integral_constant<int, 64>());
  if (a.d <= 192) return f(std::integral_constant<int, 192>());
  if (a.d <= kMaxHeadDim) return f(std::integral_constant<int, 256>());
  throw std::logic_error("attention heads of " + std::to_string(a.d) + " columns");
}

}  // namespace isobar::cuda
