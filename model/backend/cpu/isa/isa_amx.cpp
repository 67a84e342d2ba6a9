// Kernels for x86 with AMX: those of AVX-512 with vdpbf16ps, and bf16 attention on tiles. Only code between
// the pragmas is compiled for it, with internal linkage and without standard headers, so that none of it is
// linked into code for other CPUs.
#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "model/backend/cpu/isa/for_kernels.h"

#if defined(__clang__)
#pragma clang attribute push(                                                                            \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#endif
namespace isobar::cpu {
namespace {
// clang-format off
#include "model/backend/cpu/isa/simd_avx512.h"
#include "model/backend/cpu/isa/simd_math.h"
#include "model/backend/cpu/matmul_tile.h"
#include "model/backend/cpu/transpose.h"
#include "model/backend/cpu/attention/attention_pack.h"
#include "model/backend/cpu/attention/attention_forward.h"
#include "model/backend/cpu/attention/attention_backward.h"
#include "model/backend/cpu/tiles.h"
#include "model/backend/cpu/attention/attention_tiles.h"
#include "model/backend/cpu/attention/attention_tiles_backward.h"
// clang-format on

// The instructions themselves: see PlainTiles
struct AmxTiles {
  static void begin() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const shape;
    // To the compiler GCC 12's intrinsic reads 8 of these bytes, so others may be left unwritten.
    asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  static void end() { _tile_release(); }
  // GCC's intrinsics are macros that take no constant by name.
  template <int kTile>
  [[gnu::always_inline]] static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] static void load(const float* p, int64_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(p), "r"(stride * 4) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void store(float* p, int64_t stride) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(p), "r"(stride * 4) : "memory");
  }
  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void mac() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};
}  // namespace

const KernelTable& amx_kernels() {
  static const KernelTable kTable = [] {
    KernelTable t = avx512_bf16_kernels();
    t.attention_forward[of(DType::bf16)] = attention_forward_tiles<Avx512<true>, AmxTiles>;
    t.attention_backward[of(DType::bf16)] = attention_backward_tiles<Avx512<true>, AmxTiles>;
    t.tile_product = [](int64_t m, int64_t n, int64_t pairs, const float* a, int64_t lda, const float* b,
                        int64_t ldb, float* c, int64_t ldc, bool add) {
      AmxTiles::begin();
      tile_product<AmxTiles>(m, n, pairs, a, lda, b, ldb, c, ldc, add);
      AmxTiles::end();
    };
    return t;
  }();
  return kTable;
}

const KernelTable& plain_tile_avx512_kernels() {
  static const KernelTable kTable = [] {
    KernelTable t = avx512_bf16_kernels();
    t.attention_forward[of(DType::bf16)] = attention_forward_tiles<Avx512<true>, PlainTiles>;
    t.attention_backward[of(DType::bf16)] = attention_backward_tiles<Avx512<true>, PlainTiles>;
    t.tile_product = tile_product<PlainTiles>;
    return t;
  }();
  return kTable;
}

}  // namespace isobar::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
