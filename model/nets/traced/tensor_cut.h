// Tensor parallelism of a recorded net, by words of the run: net.tensor: ["blocks.*.attn.qkv: columns",
// "blocks.*.attn.proj: rows"], as PyTorch's ColwiseParallel and RowwiseParallel cut linear layers.
//
//   const TensorCutNet cut = tensor_cut(spec, Amp::bf16, 4);   // throws ConfigError: what cannot be cut, by
//   name cut.graph->definitions                                     // of one of four ranks
//   cut.axes.at("blocks.0.attn.qkv.weight")                    // 0: rows of [out, in]
//
// From the results of columns to the operands of rows each rank computes its share of all values; a product
// that sums over what is cut is partial, and ranks add it (Shoeybi 2019).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/base/net_specs/traced.h"
#include "model/base/spec/traced_net.h"

namespace isobar::nets {

struct TensorCutNet {
  std::shared_ptr<const TracedGraph> graph;
  std::map<std::string, int> axes;       // of cut parameters
  std::map<std::string, int64_t> sizes;  // by name: tensor parallelism divides each
};
TensorCutNet tensor_cut(const TracedSpec& spec, Amp amp, int64_t tp);

}  // namespace isobar::nets
