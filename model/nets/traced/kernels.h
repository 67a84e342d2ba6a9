// The kernels of a recorded part's pass: in eager PyTorch one for each op. torch.compile computes equal casts
// once, and fuses a pointwise op, norm or reduction with the one that made its operand.
//
//   const TracedKernels k = kernels_of(definition.forward, compiled);
//   for (const TracedKernel& ops : k.kernels) …
#pragma once
#include <map>
#include <vector>

#include "model/base/spec/traced_net.h"

namespace isobar::nets {

using TracedKernel = std::vector<int32_t>;  // ops, in order
struct TracedKernels {
  std::vector<TracedKernel> kernels;
  std::map<int32_t, int32_t> same;  // of values: an earlier one that is equal
};
TracedKernels kernels_of(const std::vector<TracedOp>& ops, bool compiled);

}  // namespace isobar::nets
