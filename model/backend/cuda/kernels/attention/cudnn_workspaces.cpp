#include "model/backend/cuda/kernels/attention/cudnn_workspaces.h"

#include <algorithm>
#include <map>

namespace isobar::cuda {

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
