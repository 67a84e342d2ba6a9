// The graph of a regional-gnn as lists of edges. It is a pure function of the spec and the same on every
// machine: distances are computed from row and column numbers, so symmetric points are exactly equally far,
// and ties go to the lower index.
//
//   const RegionGraph g = region_graph(spec);
//   g.intra.senders[e], g.intra.receivers[e]       // indices into the region's own nodes
//
// A region's nodes are its points row by row from the north; upstream only those of sending_box(), since no
// edge touches the others and no prediction or gradient depends on them. Counts of edges need no graph
// (RegionalGnnSpec::intra_edges): a plan that is only priced never builds it.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "model/base/spec/net_spec.h"
#include "model/nets/graph/edge_cut.h"
#include "model/nets/graph/partition.h"

namespace isobar::nets {

/// Features: receiver's latitude and longitude minus the sender's, great-circle distance; degrees
struct RegionGraph {
  static constexpr int64_t kFeatures = 3;
  EdgeSet intra;     // downstream to downstream
  EdgeSet boundary;  // upstream (sending_box()) to the downstream region's western boundary
};

/// The smallest box of the upstream region that holds all senders of boundary edges; cached.
GridBox sending_box(const RegionalGnnSpec& n);
RegionGraph region_graph(const RegionalGnnSpec& n);

/// The graph cut over ranks as net.partition says, by rank. Bands: even runs of points of both regions;
/// METIS: balanced by received edges of each type, and by upstream points that send.
struct RegionCut {
  Partition down, up;
  std::vector<EdgeCut> intra, boundary;
};
/// Throws ConfigError if the program was built without METIS and needs it.
std::shared_ptr<const RegionCut> region_cut(const RegionalGnnSpec& n, int64_t ranks);

/// The graph with nodes renumbered by the cut.
RegionGraph numbered(RegionGraph graph, const RegionCut& cut);

}  // namespace isobar::nets
