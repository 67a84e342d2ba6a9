// The graph of a regional-gnn: which grid points send messages to which, as lists of edges. A pure function
// of the spec, the same on every machine: distances are worked out from row and column numbers, so points
// that lie symmetrically are exactly equally far, and of equals the one with the lower index is nearer.
//
//   const RegionGraph g = region_graph(spec);
//   g.intra.senders[e], g.intra.receivers[e]       // indices into the region's own nodes
//
// Nodes of a region are its points row by row from the north. Counts are known without the graph
// (RegionalGnnSpec::intra_edges): a plan that is only priced never builds it.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "model/base/net_spec.h"
#include "model/nets/edge_cut.h"

namespace isobar {

/// Features: receiver's latitude and longitude less the sender's, great-circle distance; degrees
struct RegionGraph {
  static constexpr int64_t kFeatures = 3;
  EdgeSet intra;     // downstream to downstream
  EdgeSet boundary;  // upstream to the downstream region's western boundary
};

RegionGraph region_graph(const RegionalGnnSpec& n);

/// Cut over ranks: both regions into runs of points as even as can be, bands of latitude. By rank.
struct RegionCut {
  std::vector<EdgeCut> intra, boundary;
};
std::shared_ptr<const RegionCut> region_cut(const RegionalGnnSpec& n, int64_t ranks);

/// Built when somebody first looks, once for all that share it.
class LazyRegionGraph {
 public:
  explicit LazyRegionGraph(RegionalGnnSpec spec) : spec_(std::move(spec)) {}
  const RegionGraph& operator()() const {
    std::call_once(once_, [this] { graph_ = region_graph(spec_); });
    return graph_;
  }

 private:
  const RegionalGnnSpec spec_;
  mutable std::once_flag once_;
  mutable RegionGraph graph_;
};

}  // namespace isobar
