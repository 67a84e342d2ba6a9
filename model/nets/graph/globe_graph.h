// The graph of a graphcast net: a latitude-longitude grid of the globe, an icosahedral multi-mesh, and the
// edges between them (Lam 2023). A pure function of the spec.
//
//   const auto g = globe_graph(spec);              // cached within a process
//   g->grid_to_mesh.senders[e]                     // a grid point: row * img_width + column
//   g->mesh.receivers[e]                           // a mesh node: north to south (globe_mesh.h)
//   grid_to_mesh_edges(spec)                       // the one count without a closed form
//
// Rows of the grid go from pole to pole, both included; its first column is at 0 E. A grid point sends to the
// mesh nodes within `radius` times the finest level's longest edge (chords), and receives from the corners of
// the triangle that contains it.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "model/base/spec/net_spec.h"
#include "model/nets/graph/edge_cut.h"
#include "model/nets/graph/partition.h"

namespace isobar::nets {

/// Features of an edge: its length, and the sender's position minus the receiver's in a frame rotated so that
/// the receiver is at 0 N 0 E (x up, y east, z north); in units of the longest edge of its type.
struct GlobeGraph {
  static constexpr int64_t kEdgeFeatures = 4;
  static constexpr int64_t kNodeFeatures = 3;  // sine of the latitude, sine and cosine of the longitude
  EdgeSet grid_to_mesh, mesh, mesh_to_grid;
  std::vector<float> grid_planes;    // [3, H, W]: node features of the grid's points
  std::vector<float> mesh_features;  // [nodes, 3]
};

/// The graph cut over ranks as net.partition says: bands of latitude, or METIS for grid and mesh separately.
/// Grid points are split evenly, the mesh so that ranks' nodes receive equally many edges. By rank.
struct GlobeCut {
  Partition grid, mesh;
  std::vector<EdgeCut> grid_to_mesh, level, mesh_to_grid;
};

/// Without `features`: the edges by receiver alone, which a cut into bands needs.
std::shared_ptr<const GlobeGraph> globe_graph(const GraphcastSpec& n, bool features = true);
/// Throws ConfigError if the program was built without METIS and needs it.
std::shared_ptr<const GlobeCut> globe_cut(const GraphcastSpec& n, int64_t ranks);
int64_t grid_to_mesh_edges(const GraphcastSpec& n);

/// The graph with nodes renumbered by the cut. The grid's features (grid_planes) stay in the order of fields.
GlobeGraph numbered(const GlobeGraph& graph, const GlobeCut& cut);

}  // namespace isobar::nets
