// The attentions that tests run on a GPU, besides the shipped configurations'.
#pragma once
#include <cmath>
#include <vector>

#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda::testing {

/// q, k and v side by side in a row, as in plans
inline Attention attention_of(int64_t batch, int64_t heads, int64_t tq, int64_t tk, int64_t d, DType act) {
  return {
      batch, heads,         heads,         tq,        tk,   d, 1 / std::sqrt(static_cast<float>(d)), false,
      act,   3 * heads * d, 3 * heads * d, heads * d, false};
}

inline std::vector<Attention> tested_attentions() {
  std::vector<Attention> all;
  for (const DType act : {DType::bf16, DType::f16}) {
    all.push_back(attention_of(2, 8, 405, 405, 48, act));
    all.push_back(attention_of(1, 4, 130, 517, 64, act));
    all.push_back(attention_of(1, 2, 65, 65, 8, act));
    all.push_back(attention_of(1, 2, 333, 200, 128, act));
    all.push_back(attention_of(1, 2, 300, 300, 192, act));
    all.push_back(attention_of(4, 2, 12, 12, 16, act));  // training_kernels_test
  }
  return all;
}

}  // namespace isobar::cuda::testing
