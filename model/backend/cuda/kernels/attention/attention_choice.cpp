#include "model/backend/cuda/kernels/attention/attention_choice.h"

#include <algorithm>
#include <map>

namespace isobar::cuda {

bool hopper_is_faster(const Attention& a, bool backward) {
  const auto longer = std::ranges::upper_bound(kMeasuredTokens, std::min(a.tq, a.tk));
  const auto lengths = longer - std::begin(kMeasuredTokens);  // that are not above this one
  return lengths > 0 && std::ranges::any_of(kMeasuredAttention, [&](const MeasuredAttention& m) {
           return m.d == a.d && m.causal == a.causal && m.backward == backward && m.times[lengths - 1] >= 1;
         });
}

CudnnShape shape_of(const CudnnRow& r) {
  return {r.capability, r.causal, r.deterministic, r.heads, r.kv_heads, r.tq, r.tk, r.d};
}

CudnnShape shape_of(const Attention& a, int capability) {
  return {capability, a.causal, a.deterministic, a.heads, a.kv_heads, a.tq, a.tk, a.d};
}

const std::vector<CudnnRow>& cudnn_rows() {
  static const std::vector<CudnnRow> rows = {
#include "model/backend/cuda/kernels/attention/cudnn_workspaces.inc"
  };
  return rows;
}

std::optional<int64_t> known_workspace(const Attention& a, int capability) {
  static const auto by_shape = [] {
    std::map<CudnnShape, std::vector<const CudnnRow*>> all;
    for (const CudnnRow& r : cudnn_rows())
      if (!r.refused()) all[shape_of(r)].push_back(&r);
    return all;
  }();
  const auto at = by_shape.find(shape_of(a, capability));
  if (at == by_shape.end()) return std::nullopt;
  int64_t most = 0;
  for (const CudnnRow* r : at->second) most = std::max(most, r->of(a.batch));
  return most;
}

}  // namespace isobar::cuda
