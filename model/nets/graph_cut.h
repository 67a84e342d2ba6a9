// What a cut of a net's graph over cp ranks costs, for people.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/net_spec.h"

namespace isobar {

struct CutOfEdges {
  std::string edges;            // which type
  int64_t all = 0, cut = 0;     // edges; of them, those whose sender lies on another rank than their receiver
  int64_t halo = 0;             // rows of senders that are exchanged, of all ranks together
  int64_t most = 0, least = 0;  // edges of a rank
};

/// By type of edge; {}: one rank, or a net without a graph
std::vector<CutOfEdges> graph_cut(const NetSpec& net, int64_t ranks);

}  // namespace isobar
