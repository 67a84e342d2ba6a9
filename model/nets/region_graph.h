// The graph of a regional-gnn: which grid points send messages to which, as lists of edges. A pure function
// of the spec, the same on every machine: distances are worked out from row and column numbers, so points
// that lie symmetrically are exactly equally far, and of equals the one with the lower index is nearer.
//
//   const RegionGraph g = region_graph(spec);
//   g.intra.senders[e], g.intra.receivers[e]       // indices into the region's own nodes
//
// Nodes of a region are its points row by row from the north. Of the upstream region only the points of
// sending_box() are nodes: it holds every one that an edge reads. The others, most of them, see no other
// node and are seen by none, so nothing that is predicted, and no gradient, depends on them. Counts of edges
// are known without the graph (RegionalGnnSpec::intra_edges): a plan that is only priced never builds it.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "model/base/net_spec.h"
#include "model/nets/edge_cut.h"
#include "model/nets/partition.h"

namespace isobar {

/// Features: receiver's latitude and longitude less the sender's, great-circle distance; degrees
struct RegionGraph {
  static constexpr int64_t kFeatures = 3;
  EdgeSet intra;     // downstream to downstream
  EdgeSet boundary;  // upstream, of sending_box(), to the downstream region's western boundary
};

/// The fewest rows and columns of the upstream region that hold all senders of boundary edges; kept once
/// found.
GridBox sending_box(const RegionalGnnSpec& n);
RegionGraph region_graph(const RegionalGnnSpec& n);

/// Cut over ranks as net.partition says: both regions into runs of points as even as can be, bands of
/// latitude; or as METIS deals them out, evenly by the edges of each type that are received, and by upstream
/// points that send. By rank.
struct RegionCut {
  Partition down, up;
  std::vector<EdgeCut> intra, boundary;
};
/// Throws ConfigError where the program has no METIS to ask.
std::shared_ptr<const RegionCut> region_cut(const RegionalGnnSpec& n, int64_t ranks);

/// The same graph with its nodes numbered as they are dealt out.
RegionGraph numbered(RegionGraph graph, const RegionCut& cut);

/// Built when somebody first looks, once for all that share it; numbered as `cut` (may be absent) has it.
class LazyRegionGraph {
 public:
  LazyRegionGraph(RegionalGnnSpec spec, std::shared_ptr<const RegionCut> cut)
      : spec_(std::move(spec)), cut_(std::move(cut)) {}
  const RegionGraph& operator()() const {
    std::call_once(once_, [this] {
      graph_ = region_graph(spec_);
      if (cut_) graph_ = numbered(std::move(graph_), *cut_);
    });
    return graph_;
  }

 private:
  const RegionalGnnSpec spec_;
  const std::shared_ptr<const RegionCut> cut_;
  mutable std::once_flag once_;
  mutable RegionGraph graph_;
};

}  // namespace isobar
