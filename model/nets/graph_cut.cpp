#include "model/nets/graph_cut.h"

#include <algorithm>

#include "model/nets/globe_graph.h"
#include "model/nets/region_graph.h"

namespace isobar {
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

std::vector<CutOfEdges> cut_of(const GraphcastSpec& n, int64_t ranks) {
  const auto cut = globe_cut(n, ranks);
  return {sum_of("grid to mesh", cut->grid_to_mesh), sum_of("mesh", cut->level),
          sum_of("mesh to grid", cut->mesh_to_grid)};
}

std::vector<CutOfEdges> cut_of(const RegionalGnnSpec& n, int64_t ranks) {
  const auto cut = region_cut(n, ranks);
  return {sum_of("intra", cut->intra), sum_of("boundary", cut->boundary)};
}

}  // namespace

std::vector<CutOfEdges> graph_cut(const NetSpec& net, int64_t ranks) {
  if (ranks == 1) return {};
  return net.visit([&](const auto& n) -> std::vector<CutOfEdges> {
    if constexpr (requires { cut_of(n, ranks); })
      return cut_of(n, ranks);
    else
      return {};
  });
}

}  // namespace isobar
