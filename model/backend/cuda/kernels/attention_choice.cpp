#include "model/backend/cuda/kernels/attention_choice.h"

#include <algorithm>

namespace isobar::cuda {

bool hopper_is_faster(const Attention& a, bool backward) {
  if (a.tq < kMeasuredTokens || a.tk < kMeasuredTokens) return false;
  return std::ranges::any_of(kMeasuredAttention, [&](const MeasuredAttention& m) {
    return m.d == a.d && m.causal == a.causal && m.backward == backward && m.times >= 1;
  });
}

}  // namespace isobar::cuda
