#include "model/nets/graph/edge_cut.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/base/error.h"
#include "model/nets/layers.h"
#include "model/nets/layout/memo.h"

namespace isobar::nets {
namespace {

std::vector<int64_t> begins_of(const std::vector<int64_t>& parts) {
  std::vector<int64_t> begins{0};
  for (const int64_t n : parts) begins.push_back(begins.back() + n);
  return begins;
}

void add_returned(EdgeCut& c) {
  const auto own = static_cast<size_t>(c.senders);
  std::vector<int32_t>& offsets = c.returned_offsets;
  offsets.assign(own + 1, 1);
  offsets[0] = 0;
  for (const int32_t s : c.sent) ++offsets[static_cast<size_t>(s) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<int32_t> next(offsets.begin(), offsets.end() - 1);
  c.returned_rows.resize(own + c.sent.size());
  for (size_t s = 0; s < own; ++s) c.returned_rows[static_cast<size_t>(next[s]++)] = static_cast<int32_t>(s);
  for (size_t i = 0; i < c.sent.size(); ++i)
    c.returned_rows[static_cast<size_t>(next[static_cast<size_t>(c.sent[i])]++)] =
        static_cast<int32_t>(c.table() + static_cast<int64_t>(i));
}

}  // namespace

bool EdgeCut::reads_halo(int64_t first, int64_t count) const {
  const auto next = std::upper_bound(at_the_cut.begin(), at_the_cut.end(), first,
                                     [](int64_t edge, const EdgeRun& run) { return edge < run.end; });
  return next != at_the_cut.end() && next->first < first + count;
}

std::vector<EdgeCut> cut_edges(const EdgeSet& all, const std::vector<int64_t>& sender_parts,
                               const std::vector<int64_t>& receiver_parts) {
  const size_t ranks = sender_parts.size();
  const std::vector<int64_t> senders = begins_of(sender_parts), receivers = begins_of(receiver_parts);
  std::vector<EdgeCut> cuts(ranks);
  std::vector<bool> listed(static_cast<size_t>(senders.back()));  // in this rank's halo
  int64_t halo_of_all = 0;
  for (size_t r = 0; r < ranks; ++r) {
    EdgeCut& c = cuts[r];
    c.first_sender = senders[r], c.senders = sender_parts[r];
    c.first_receiver = receivers[r], c.receivers = receiver_parts[r];
    c.first_edge = all.receiver_offsets[static_cast<size_t>(receivers[r])];
    c.edges = all.receiver_offsets[static_cast<size_t>(receivers[r + 1])] - c.first_edge;
    const int32_t* const sender = all.senders.data() + c.first_edge;
    EdgeRun run{0, 0};
    const auto end_run = [&] {
      if (run.end > run.first) c.at_the_cut.push_back(run);
      c.cut_edges += run.end - run.first;
    };
    for (int64_t e = 0; e < c.edges; ++e) {
      const int32_t s = sender[e];
      if (s >= senders[r] && s < senders[r + 1]) continue;
      if (e != run.end) end_run(), run.first = e;
      run.end = e + 1;
      if (!listed[static_cast<size_t>(s)]) c.halo.push_back(s), listed[static_cast<size_t>(s)] = true;
    }
    end_run();
    for (const int32_t s : c.halo) listed[static_cast<size_t>(s)] = false;
    std::sort(c.halo.begin(), c.halo.end());
    halo_of_all += static_cast<int64_t>(c.halo.size());
    c.receive.assign(ranks, 0), c.send.assign(ranks, 0);
  }
  for (EdgeCut& to : cuts)
    for (const int32_t s : to.halo) {
      const auto r =
          static_cast<size_t>(std::upper_bound(senders.begin(), senders.end(), s) - senders.begin()) - 1;
      EdgeCut& from = cuts[r];
      from.sent.push_back(static_cast<int32_t>(s - from.first_sender));
      ++from.send[static_cast<size_t>(&to - cuts.data())];
      ++to.receive[r];
    }
  const auto by_edges = [](const EdgeCut& a, const EdgeCut& b) { return a.edges < b.edges; };
  const int64_t edges = std::min_element(cuts.begin(), cuts.end(), by_edges)->edges;
  const int64_t nodes = std::min(*std::min_element(sender_parts.begin(), sender_parts.end()),
                                 *std::min_element(receiver_parts.begin(), receiver_parts.end()));
  for (EdgeCut& c : cuts) {
    c.halo_of_all = halo_of_all, c.fewest_edges = edges, c.fewest_nodes = nodes;
    add_returned(c);
  }
  return cuts;
}

EdgeSet local_edges(const EdgeSet& all, const EdgeCut& cut) {
  EdgeSet e;
  const auto width = static_cast<int64_t>(all.features.size() / all.senders.size());
  const int64_t end = cut.first_edge + cut.edges;
  for (int64_t i = cut.first_edge; i < end; ++i) {
    const int64_t s = all.senders[static_cast<size_t>(i)] - cut.first_sender;
    const auto halo = std::lower_bound(cut.halo.begin(), cut.halo.end(), all.senders[static_cast<size_t>(i)]);
    e.senders.push_back(
        static_cast<int32_t>(s >= 0 && s < cut.senders ? s : cut.senders + (halo - cut.halo.begin())));
    e.receivers.push_back(static_cast<int32_t>(all.receivers[static_cast<size_t>(i)] - cut.first_receiver));
  }
  for (int64_t r = cut.first_receiver; r <= cut.first_receiver + cut.receivers; ++r)
    e.receiver_offsets.push_back(
        static_cast<int32_t>(all.receiver_offsets[static_cast<size_t>(r)] - cut.first_edge));
  e.features.assign(all.features.begin() + width * cut.first_edge, all.features.begin() + width * end);
  e.list_by_sender(cut.table());
  return e;
}

std::vector<int64_t> split_by_weight(const std::vector<int64_t>& weights, int64_t ranks) {
  const auto nodes = static_cast<int64_t>(weights.size());
  const int64_t all = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  std::vector<int64_t> parts;
  int64_t node = 0, before = 0;
  for (int64_t r = 0; r < ranks; ++r) {
    const int64_t first = node, most = nodes - (ranks - 1 - r);
    while (node < most && (node == first || before * ranks < (r + 1) * all))
      before += weights[static_cast<size_t>(node++)];
    parts.push_back(node - first);
  }
  parts.back() += nodes - node;
  return parts;
}

EdgeConstants edges_of_rank(Emission& e, const std::string& name, const EdgeConstants::Source& all,
                            const EdgeCounts& whole, std::shared_ptr<const EdgeCut> cut) {
  if (!cut) return {e.b, name, all, whole};
  if (cut->fewest_edges == 0 || cut->fewest_nodes == 0)
    throw ConfigError(e.spec.file, "layout.cp",
                      "leaves a rank without nodes, or without any of the " + std::to_string(whole.edges) +
                          " edges '" + name + "'",
                      "set it smaller, or make the graph larger");
  const auto local = std::make_shared<const Lazy<EdgeSet>>([=] { return local_edges(all(), *cut); });
  return {e.b,
          name,
          [local]() -> const EdgeSet& { return (*local)(); },
          {cut->edges, cut->senders, cut->receivers, whole.width},
          cut};
}

}  // namespace isobar::nets
