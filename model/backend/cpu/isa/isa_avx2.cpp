// Kernels for x86 with AVX2 and FMA; see isa_amx.cpp for the pragmas and internal linkage.
#if defined(__x86_64__)
#include "model/backend/cpu/isa/for_kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace isobar::cpu {
namespace {
// clang-format off
#include "model/backend/cpu/isa/simd_avx2.h"
#include "model/backend/cpu/isa/kernels_of_isa.h"
// clang-format on
}  // namespace

const KernelTable& avx2_kernels() {
  static constexpr KernelTable kTable = make_table<Avx2, DotBf16Widened<Avx2>>();
  return kTable;
}

}  // namespace isobar::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
