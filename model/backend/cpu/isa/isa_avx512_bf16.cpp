// Kernels for x86 with AVX-512 and vdpbf16ps; see isa_amx.cpp for the pragmas and internal linkage.
#if defined(__x86_64__)
#include "model/backend/cpu/isa/for_kernels.h"

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif
namespace isobar::cpu {
namespace {
// clang-format off
#include "model/backend/cpu/isa/simd_avx512.h"
#include "model/backend/cpu/isa/kernels_of_isa.h"
// clang-format on

// The instruction itself; it sums the pair in f32 and treats denormals as zero
struct DotBf16Native {
  using Element = bf16;
  static constexpr int kPack = 2;
  static constexpr int kSteps = 1;
  using Operand = __m512bh;
  static Operand load(const void* p, int /*step*/) { return (__m512bh)_mm512_loadu_si512(p); }
  static Operand broadcast(const void* p, int /*step*/) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof(pair));
    return (__m512bh)_mm512_set1_epi32(pair);
  }
  static __m512 mac(Operand a, Operand b, __m512 acc) { return _mm512_dpbf16_ps(acc, a, b); }
};
}  // namespace

const KernelTable& avx512_bf16_kernels() {
  static constexpr KernelTable kTable = make_table<Avx512<true>, DotBf16Native>();
  return kTable;
}

}  // namespace isobar::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
