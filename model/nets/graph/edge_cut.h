// A graph cut over ranks: each has a run of the nodes of each type, and the edges into them. Its halo is the
// senders on other ranks: their rows are received before a step, and their gradients' sums are sent back in
// backward. Sums over a receiver's edges are local, in the whole graph's order.
//
//   const auto cuts = cut_edges(all, split_evenly(senders, cp), split_evenly(receivers, cp));
//   cuts[rank].halo               // senders on other ranks that its edges read
//   local_edges(all, cuts[rank])  // sender indices: its own, then the halo
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/graph/edge_set.h"

namespace isobar::nets {

class Emission;

/// Adjacent edges, counted from a rank's first_edge
struct EdgeRun {
  int64_t first, end;
};

/// One rank's part of a set of edges.
struct EdgeCut {
  int64_t first_sender = 0, senders = 0, first_receiver = 0, receivers = 0;
  int64_t first_edge = 0, edges = 0;           // a run of all edges
  std::vector<int32_t> halo;                   // indices in the whole graph: by rank, then by index
  std::vector<int32_t> sent;                   // own senders that others read, from 0: by rank, then by index
  std::vector<int64_t> receive, send;          // rows of both, from and to each rank
  int64_t cut_edges = 0;                       // own edges with a sender on another rank
  std::vector<EdgeRun> at_the_cut;             // runs of them
  int64_t halo_of_all = 0;                     // sum over all ranks
  int64_t fewest_edges = 0, fewest_nodes = 0;  // of any rank
  /// In the table of own senders, halo and returned rows: the rows that add up to each own sender's
  std::vector<int32_t> returned_offsets, returned_rows;
  int64_t table() const { return senders + static_cast<int64_t>(halo.size()); }
  /// True if any of these edges, counted from first_edge, reads the halo.
  bool reads_halo(int64_t first, int64_t count) const;
};

/// One for each rank; parts: nodes of each rank, in order
std::vector<EdgeCut> cut_edges(const EdgeSet& all, const std::vector<int64_t>& sender_parts,
                               const std::vector<int64_t>& receiver_parts);
EdgeSet local_edges(const EdgeSet& all, const EdgeCut& cut);

/// Nodes of each of `ranks` ranks, at least one, with weights as equal as runs allow.
std::vector<int64_t> split_by_weight(const std::vector<int64_t>& weights, int64_t ranks);

/// A rank's edges as constants of its plan. `all`: the whole set, with counts `whole`; `cut`: absent if the
/// graph is whole. Throws ConfigError if the rank has none.
EdgeConstants edges_of_rank(Emission& e, const std::string& name, const EdgeConstants::Source& all,
                            const EdgeCounts& whole, std::shared_ptr<const EdgeCut> cut);

}  // namespace isobar::nets
