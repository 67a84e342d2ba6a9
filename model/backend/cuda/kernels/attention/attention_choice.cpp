#include "model/backend/cuda/kernels/attention/attention_choice.h"

#include <algorithm>

namespace isobar::cuda {

bool hopper_is_faster(const Attention& a, bool backward) {
  const auto longer = std::ranges::upper_bound(kMeasuredTokens, std::min(a.tq, a.tk));
  const auto lengths = longer - std::begin(kMeasuredTokens);  // that are not above this one
  return lengths > 0 && std::ranges::any_of(kMeasuredAttention, [&](const MeasuredAttention& m) {
           return m.d == a.d && m.causal == a.causal && m.backward == backward && m.times[lengths - 1] >= 1;
         });
}

}  // namespace isobar::cuda
