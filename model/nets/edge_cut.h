// A graph cut over ranks: each has a run of the nodes of each type, and the edges into them. Senders that lie
// on other ranks are its halo: their rows come before a step, and what the backward pass adds up for them
// goes back. Sums over the edges of a receiver are local, in the order of the whole graph's edges.
//
//   const auto cuts = cut_edges(all, split_evenly(senders, cp), split_evenly(receivers, cp));
//   cuts[rank].halo               // senders of other ranks that its edges read
//   local_edges(all, cuts[rank])  // senders numbered: its own, then the halo
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/nets/edge_set.h"

namespace isobar {

class Emission;

/// What one rank has of a set of edges.
struct EdgeCut {
  int64_t first_sender = 0, senders = 0, first_receiver = 0, receivers = 0;
  int64_t first_edge = 0, edges = 0;           // a run of the whole's
  std::vector<int32_t> halo;                   // in the whole's numbers: by rank, then by number
  std::vector<int32_t> sent;                   // its own that others read, from 0: by rank, then by number
  std::vector<int64_t> receive, send;          // of both, rows from and to each rank
  int64_t cut_edges = 0;                       // its edges whose sender lies elsewhere …
  std::vector<int64_t> at_the_cut;             // … and which those are, counted from its first
  int64_t halo_of_all = 0;                     // of all ranks together
  int64_t fewest_edges = 0, fewest_nodes = 0;  // of any rank
  /// Of a table of its own senders' rows, the halo's and those that come back: which make up each of its own
  std::vector<int32_t> returned_offsets, returned_rows;
  int64_t table() const { return senders + static_cast<int64_t>(halo.size()); }
  /// Whether any of these edges, counted from its first, reads the halo.
  bool reads_halo(int64_t first, int64_t count) const;
};

/// One for each rank; parts: nodes of each rank, in order
std::vector<EdgeCut> cut_edges(const EdgeSet& all, const std::vector<int64_t>& sender_parts,
                               const std::vector<int64_t>& receiver_parts);
EdgeSet local_edges(const EdgeSet& all, const EdgeCut& cut);

/// Nodes of each of so many ranks, at least one, so that the runs weigh as much as each other.
std::vector<int64_t> split_by_weight(const std::vector<int64_t>& weights, int64_t ranks);

/// A rank's edges, made when somebody first looks.
class LazyEdges {
 public:
  LazyEdges(std::function<const EdgeSet&()> all, std::shared_ptr<const EdgeCut> cut)
      : all_(std::move(all)), cut_(std::move(cut)) {}
  const EdgeSet& operator()() const {
    std::call_once(once_, [this] { edges_ = local_edges(all_(), *cut_); });
    return edges_;
  }

 private:
  const std::function<const EdgeSet&()> all_;
  const std::shared_ptr<const EdgeCut> cut_;
  mutable std::once_flag once_;
  mutable EdgeSet edges_;
};

/// Edges of a rank as constants of its plan. `all`: the whole set, of which `whole` says the counts; `cut`:
/// absent where it is not cut. Throws ConfigError where the rank has none.
EdgeConstants edges_of_rank(Emission& e, const std::string& name, const EdgeConstants::Source& all,
                            const EdgeCounts& whole, std::shared_ptr<const EdgeCut> cut);

}  // namespace isobar
