// Operands of any type as f32, a block at a time: for memory-bound kernels with one operand of several
// possible types.
//
//   in_f32(x, DType::bf16, {0, n}, [&](Range r, const float* values) { ... });
#pragma once
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

constexpr int64_t kBlock = 1024;  // elements: they stay in the L1 cache

/// f(part of the range, its values): f32 in one part, other types in blocks.
template <class F>
void in_f32(const void* x, DType t, Range range, const F& f) {
  if (t == DType::f32) {
    if (range.begin < range.end) f(range, static_cast<const float*>(x) + range.begin);
    return;
  }
  float values[kBlock];
  for (int64_t i = range.begin; i < range.end; i += kBlock) {
    const Range r{i, std::min(range.end, i + kBlock)};
    kernels().cast[of(t)][of(DType::f32)](r.end - r.begin, static_cast<const char*>(x) + i * size_of(t),
                                          values);
    f(r, values);
  }
}

}  // namespace isobar::cpu
