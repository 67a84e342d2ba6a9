// Edges of a graph network as lists, and as constants of a plan.
//
//   EdgeSet e = …;                        // senders, receivers, features by edge, receiver_offsets
//   e.list_by_sender(senders);            // the transposed lists
//   EdgeConstants c(builder, "intra", [=]() -> const EdgeSet& { return (*graph)().intra; }, counts);
//   c.sender()                            // i32 [edges]; a constant of the plan from here on
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/nets/constants.h"

namespace isobar::nets {

/// Edges of one type by receiver, then by sender; both ends as CSR (offsets have one entry more than nodes).
struct EdgeSet {
  std::vector<int32_t> senders, receivers;  // by edge
  std::vector<int32_t> receiver_offsets;    // edges of receiver r: offsets[r] … offsets[r + 1]
  std::vector<int32_t> sender_offsets;      // of sender s: by_sender[offsets[s]] …
  std::vector<int32_t> by_sender;           // edges by sender, then by index
  std::vector<float> features;              // by edge; defined by the graph

  /// Fills sender_offsets and by_sender by counting sort.
  void list_by_sender(int64_t senders);
};

/// Known before a set is built.
struct EdgeCounts {
  int64_t edges = 0, senders = 0, receivers = 0, width = 0;  // width: features of an edge
};
struct EdgeCut;  // edge_cut.h

/// Indices and features of one type of edge on this rank, as constants of its plan. Each buffer is created on
/// first use, so a rank holds only those that its parts read. If the graph is cut, `of` gives this rank's
/// edges and `cut` the exchanges.
class EdgeConstants {
 public:
  using Source = std::function<const EdgeSet&()>;
  EdgeConstants(plan::Builder& b, std::string name, Source of, const EdgeCounts& counts,
                std::shared_ptr<const EdgeCut> cut = nullptr)
      : edges(counts.edges),
        senders(counts.senders),
        receivers(counts.receivers),
        width(counts.width),
        b_(b),
        name_(std::move(name)),
        of_(std::move(of)),
        cut_(std::move(cut)) {}
  const int64_t edges, senders, receivers, width;  // senders: own ones
  const EdgeCut* cut() const { return cut_.get(); }

  plan::View sender() { return indices(0, "sender", edges, &EdgeSet::senders); }
  plan::View receiver() { return indices(1, "receiver", edges, &EdgeSet::receivers); }
  plan::View receiver_offsets() {
    return indices(2, "receiver_offsets", receivers + 1, &EdgeSet::receiver_offsets);
  }
  plan::View sender_offsets() { return indices(3, "sender_offsets", table() + 1, &EdgeSet::sender_offsets); }
  plan::View by_sender() { return indices(4, "by_sender", edges, &EdgeSet::by_sender); }
  plan::View features(DType t);  // [edges, width]
  // If the graph is cut: own senders' rows that are sent; and the returned rows that add up to each own row
  plan::View sent();
  plan::View returned_offsets();
  plan::View returned_rows();
  int64_t table() const;  // rows of senders that edges read: own and halo

 private:
  plan::View exchanged(int which, const char* what, std::vector<int32_t> EdgeCut::*list);
  plan::View indices(int which, const char* what, int64_t count, std::vector<int32_t> EdgeSet::*of);
  plan::Builder& b_;
  const std::string name_;
  const Source of_;
  const std::shared_ptr<const EdgeCut> cut_;
  plan::View made_[8], features_;
};

}  // namespace isobar::nets
