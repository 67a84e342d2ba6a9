// Costs of cutting a net's graph over cp ranks, for display, and the positions of its nodes.
//
//   for (const GraphCut& c : graph_cuts(spec.net, 4))   // bands of latitude, and METIS if built in
//   graph_picture(spec.net, 4)                          // drawn by reports/figures/graph_picture.h
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::nets {

struct CutOfEdges {
  std::string edges;            // type of edge
  int64_t all = 0, cut = 0;     // all edges; edges with sender and receiver on different ranks
  int64_t halo = 0;             // senders' rows that are exchanged, over all ranks
  int64_t most = 0, least = 0;  // edges of a rank
};
struct GraphCut {
  GraphPartition partition;
  bool used = false;  // the one that this net uses
  std::vector<CutOfEdges> edges;
};

/// {}: one rank, or a net without a graph
std::vector<GraphCut> graph_cuts(const NetSpec& net, int64_t ranks);

/// Edge updates in a forward pass, by rank
std::vector<int64_t> edge_updates(const GraphcastSpec& n, int64_t ranks);
std::vector<int64_t> edge_updates(const RegionalGnnSpec& n, int64_t ranks);

struct GraphPicture {
  struct Node {
    double latitude, longitude;  // degrees
    int64_t rank;
    bool receives;  // false: only sends
  };
  struct Edge {
    int32_t from, to;  // nodes
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};
/// Cut over `ranks` ranks (1: whole). For graphcast only its mesh. {}: a net without a graph
GraphPicture graph_picture(const NetSpec& net, int64_t ranks);

}  // namespace isobar::nets
