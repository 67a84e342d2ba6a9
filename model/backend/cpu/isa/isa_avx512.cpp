// Kernels for x86 with AVX-512 but no bf16 products, which are widened to f32; see isa_amx.cpp for the
// pragmas and internal linkage.
#if defined(__x86_64__)
#include "model/backend/cpu/isa/for_kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")
#endif
namespace isobar::cpu {
namespace {
// clang-format off
#include "model/backend/cpu/isa/simd_avx512.h"
#include "model/backend/cpu/isa/kernels_of_isa.h"
// clang-format on
}  // namespace

const KernelTable& avx512_kernels() {
  static constexpr KernelTable kTable = make_table<Avx512<false>, DotBf16Widened<Avx512<false>>>();
  return kTable;
}

}  // namespace isobar::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
