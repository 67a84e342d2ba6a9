// The kernels of a recorded part's pass: in eager PyTorch one for each op; torch.compile fuses pointwise ops,
// norms and reductions that follow each other on the same values.
//
//   for (const TracedKernel& k : kernels_of(definition.forward, compiled))
#pragma once
#include <vector>

#include "model/base/traced_net.h"

namespace isobar {

using TracedKernel = std::vector<int32_t>;  // ops, in order
std::vector<TracedKernel> kernels_of(const std::vector<TracedOp>& ops, bool compiled);

}  // namespace isobar
