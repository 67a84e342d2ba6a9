// What cuts of a net's graph over cp ranks cost, for people, and where its nodes lie.
//
//   for (const GraphCut& c : graph_cuts(spec.net, 4))   // by bands of latitude, and by METIS where it is
//   graph_picture(spec.net, 4)                          // drawn by reports/graph_picture.h
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

struct CutOfEdges {
  std::string edges;            // which type
  int64_t all = 0, cut = 0;     // edges; of them, those whose sender lies on another rank than their receiver
  int64_t halo = 0;             // rows of senders that are exchanged, of all ranks together
  int64_t most = 0, least = 0;  // edges of a rank
};
struct GraphCut {
  std::string partition;  // bands | metis
  bool used = false;      // it is the one that this net is cut by
  std::vector<CutOfEdges> edges;
};

/// {}: one rank, or a net without a graph
std::vector<GraphCut> graph_cuts(const NetSpec& net, int64_t ranks);

/// Of the ranks that share the first samples on the first stage the one with most to do, whom the others wait
/// for: whose edges are updated most often in a step, as other things are dealt out evenly. 0 but where a
/// graph is cut.
int busiest_rank(const RunSpec& spec);

struct GraphPicture {
  struct Node {
    double latitude, longitude;  // degrees
    int64_t rank;
    bool receives;  // false: of a kind that only sends
  };
  struct Edge {
    int32_t from, to;  // nodes
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};
/// As the net is cut over so many ranks (1: whole). Of a graphcast its mesh alone. {}: a net without a graph
GraphPicture graph_picture(const NetSpec& net, int64_t ranks);

}  // namespace isobar
