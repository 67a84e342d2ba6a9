// Which nodes of a graph each rank of context parallelism has, and how they are numbered for it: a rank's
// nodes are a run, so a cut of the graph (edge_cut.h) is the same whoever dealt them out.
//
//   Partition bands{.parts = split_evenly(nodes, ranks)};
//   const auto kinds = metis_partition({points, nodes}, {{0, of_points}}, {{&to_mesh, 0, 1}}, ranks);
//   const EdgeSet there = renumbered(to_mesh, kinds[0], kinds[1]);
//   cut_edges(there, kinds[0].parts, kinds[1].parts);
//
// METIS (Karypis 1998) makes the rows that are exchanged few, and deals out evenly what it is told to, each
// by itself. Its random numbers begin from one seed, so every rank finds the same.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/nets/edge_set.h"

namespace isobar {

struct Partition {               // of nodes of one kind
  std::vector<int32_t> order{};  // by place: which node by its own number; {}: each at its own
  std::vector<int64_t> parts{};  // nodes of each rank, in this order
  int64_t nodes() const;
  std::vector<int32_t> places() const;  // by node
};

/// Edges from nodes of one kind to nodes of another, or to its own
struct EdgesBetween {
  const EdgeSet* edges;
  size_t from, to;
};

/// What every rank is to have as much of, by node of one kind
struct Evenly {
  size_t kind;
  std::vector<int64_t> weights;
  double slack = 1.03;  // the most that a rank may have, over an even share
};

/// Whether METIS was there when this program was built.
bool has_metis();
/// Throws ConfigError where net.partition asks for it and it was not.
void require_metis(const std::string& partition);
/// `nodes`: of each kind. A rank may get none of a kind where there are few.
std::vector<Partition> metis_partition(const std::vector<int64_t>& nodes, const std::vector<Evenly>& evenly,
                                       const std::vector<EdgesBetween>& edges, int64_t ranks);

/// The same edges between nodes as they are numbered now, by receiver; those of a receiver keep their order,
/// so that sums over them are the same to the last bit.
EdgeSet renumbered(const EdgeSet& edges, const Partition& senders, const Partition& receivers);

}  // namespace isobar
