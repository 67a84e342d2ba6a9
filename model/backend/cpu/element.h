// A number of a type known at run time, as f32: for kernels that copy and add without vector code.
#pragma once
#include "model/backend/cpu/isa/kernels.h"

namespace isobar::cpu {

inline float read(const void* p, DType t, int64_t i) {
  switch (t) {
    case DType::bf16:
      return to_float(static_cast<const bf16*>(p)[i]);
    case DType::f16:
      return to_float(static_cast<const f16*>(p)[i]);
    default:
      return static_cast<const float*>(p)[i];
  }
}

inline void write(void* p, DType t, int64_t i, float x) {
  switch (t) {
    case DType::bf16:
      static_cast<bf16*>(p)[i] = to_bf16(x);
      return;
    case DType::f16:
      static_cast<f16*>(p)[i] = to_f16(x);
      return;
    default:
      static_cast<float*>(p)[i] = x;
  }
}

}  // namespace isobar::cpu
