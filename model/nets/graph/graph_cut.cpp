#include "model/nets/graph/graph_cut.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/nets/graph/globe_graph.h"
#include "model/nets/graph/globe_mesh.h"
#include "model/nets/graph/region_graph.h"

namespace isobar::nets {
namespace {

CutOfEdges sum_of(const std::string& edges, const std::vector<EdgeCut>& cuts) {
  CutOfEdges sum{.edges = edges, .least = cuts.at(0).edges};
  for (const EdgeCut& c : cuts) {
    sum.all += c.edges, sum.cut += c.cut_edges;
    sum.halo += static_cast<int64_t>(c.halo.size());
    sum.most = std::max(sum.most, c.edges), sum.least = std::min(sum.least, c.edges);
  }
  return sum;
}

// ---- cuts ----

std::vector<CutOfEdges> cut_edges_of(const GraphcastSpec& n, int64_t ranks) {
  const auto cut = globe_cut(n, ranks);
  return {sum_of("grid to mesh", cut->grid_to_mesh), sum_of("mesh", cut->level),
          sum_of("mesh to grid", cut->mesh_to_grid)};
}

std::vector<CutOfEdges> cut_edges_of(const RegionalGnnSpec& n, int64_t ranks) {
  const auto cut = region_cut(n, ranks);
  return {sum_of("intra", cut->intra), sum_of("boundary", cut->boundary)};
}

// The net's own partition, and the other if the program has it
template <class Graph>
std::vector<GraphCut> cuts_by_kind(const Graph& n, int64_t ranks) {
  std::vector<GraphCut> out;
  for (const GraphPartition partition : {GraphPartition::bands, GraphPartition::metis}) {
    Graph by = n;
    by.partition = partition;
    if (by.partition != n.partition && by.partition == GraphPartition::metis && !has_metis()) continue;
    out.push_back({partition, by.partition == n.partition, cut_edges_of(by, ranks)});
  }
  return out;
}

// ---- pictures ----

// Rank of each node, by its own index
std::vector<int64_t> ranks_of(const Partition& p) {
  std::vector<int64_t> rank(static_cast<size_t>(p.nodes()));
  size_t place = 0;
  for (size_t r = 0; r < p.parts.size(); ++r)
    for (int64_t i = 0; i < p.parts[r]; ++i, ++place)
      rank[p.order.empty() ? place : static_cast<size_t>(p.order[place])] = static_cast<int64_t>(r);
  return rank;
}

GraphPicture picture(const RegionalGnnSpec& n, int64_t ranks) {
  const auto cut = region_cut(n, ranks);
  const RegionGraph g = region_graph(n);
  GraphPicture out;
  const auto put = [&](const GridBox& box, const Partition& p, bool receives) {
    const std::vector<int64_t> rank = ranks_of(p);
    for (int64_t i = 0; i < box.points(); ++i)
      out.nodes.push_back({n.north - n.spacing * static_cast<double>(box.row + i / box.columns),
                           n.west + n.spacing * static_cast<double>(box.column + i % box.columns),
                           rank[static_cast<size_t>(i)], receives});
  };
  put(n.downstream_box(), cut->down, true);
  put(sending_box(n), cut->up, false);
  const auto up = static_cast<int32_t>(n.tokens());
  for (size_t e = 0; e < g.intra.senders.size(); ++e)
    out.edges.push_back({g.intra.senders[e], g.intra.receivers[e]});
  for (size_t e = 0; e < g.boundary.senders.size(); ++e)
    out.edges.push_back({up + g.boundary.senders[e], g.boundary.receivers[e]});
  return out;
}

GraphPicture picture(const GraphcastSpec& n, int64_t ranks) {
  const GlobeMesh mesh(n.mesh_level);
  const std::vector<int64_t> rank =
      ranks_of(ranks > 1 ? globe_cut(n, ranks)->mesh : Partition{.parts = {n.mesh_nodes()}});
  constexpr double kDegrees = 180 / std::numbers::pi;
  GraphPicture out;
  for (size_t i = 0; i < rank.size(); ++i) {
    const Point3& p = mesh.nodes()[i];
    out.nodes.push_back(
        {kDegrees * std::asin(std::clamp(p.z, -1.0, 1.0)), kDegrees * std::atan2(p.y, p.x), rank[i], true});
  }
  for (const auto& [from, to] : mesh.edges()) out.edges.push_back({from, to});
  return out;
}

}  // namespace

std::vector<int64_t> edge_updates(const GraphcastSpec& n, int64_t ranks) {
  const auto cut = globe_cut(n, ranks);
  std::vector<int64_t> out;
  for (size_t r = 0; r < cut->level.size(); ++r)
    out.push_back(cut->grid_to_mesh[r].edges + n.num_gnn_layers * cut->level[r].edges +
                  cut->mesh_to_grid[r].edges);
  return out;
}

std::vector<int64_t> edge_updates(const RegionalGnnSpec& n, int64_t ranks) {
  const auto cut = region_cut(n, ranks);
  std::vector<int64_t> out;
  for (size_t r = 0; r < cut->intra.size(); ++r)
    out.push_back(n.num_gnn_layers * (cut->intra[r].edges + cut->boundary[r].edges));
  return out;
}

std::vector<GraphCut> graph_cuts(const NetSpec& net, int64_t ranks) {
  if (ranks == 1) return {};
  return net.visit([&](const auto& n) -> std::vector<GraphCut> {
    if constexpr (requires { cut_edges_of(n, ranks); })
      return cuts_by_kind(n, ranks);
    else
      return {};
  });
}

GraphPicture graph_picture(const NetSpec& net, int64_t ranks) {
  return net.visit([&](const auto& n) -> GraphPicture {
    if constexpr (requires { picture(n, ranks); })
      return picture(n, ranks);
    else
      return {};
  });
}

}  // namespace isobar::nets
