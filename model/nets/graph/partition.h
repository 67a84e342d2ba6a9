// Assignment of a graph's nodes to ranks of context parallelism, and their numbering: a rank's nodes are a
// run, so cutting the graph (edge_cut.h) does not depend on how they were assigned.
//
//   Partition bands{.parts = split_evenly(nodes, ranks)};
//   const auto kinds = metis_partition({points, nodes}, {{0, of_points}}, {{&to_mesh, 0, 1}}, ranks);
//   const EdgeSet there = renumbered(to_mesh, kinds[0], kinds[1]);
//   cut_edges(there, kinds[0].parts, kinds[1].parts);
//
// METIS (Karypis 1998) minimises the rows exchanged and balances each weight it is given. Its seed is fixed,
// so every rank finds the same.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/settings.h"
#include "model/nets/graph/edge_set.h"

namespace isobar::nets {

struct Partition {               // of the nodes of one kind
  std::vector<int32_t> order{};  // by place: the node's own index; {}: identity
  std::vector<int64_t> parts{};  // nodes of each rank, in this order
  int64_t nodes() const;
  std::vector<int32_t> places() const;  // by node
};

/// Edges between nodes of two kinds, or of one
struct EdgesBetween {
  const EdgeSet* edges;
  size_t from, to;
};

/// A weight to balance over ranks, by node of one kind
struct Evenly {
  size_t kind;
  std::vector<int64_t> weights;
  double slack = 1.03;  // most that a rank may have, relative to an even share
};

/// True if the program was built with METIS.
bool has_metis();
/// Throws ConfigError if net.partition needs METIS and the program was built without.
void require_metis(GraphPartition partition);
/// `nodes`: of each kind. With few nodes of a kind a rank may get none.
std::vector<Partition> metis_partition(const std::vector<int64_t>& nodes, const std::vector<Evenly>& evenly,
                                       const std::vector<EdgesBetween>& edges, int64_t ranks);

/// The same edges with renumbered nodes, by receiver; a receiver's edges keep their order, so that sums are
/// bitwise equal.
EdgeSet renumbered(const EdgeSet& edges, const Partition& senders, const Partition& receivers);

}  // namespace isobar::nets
