#include "model/nets/graph/partition.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "model/base/error.h"

#ifdef ISOBAR_WITH_METIS
#include <metis.h>
#endif

namespace isobar::nets {

int64_t Partition::nodes() const {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0});
}

std::vector<int32_t> Partition::places() const {
  std::vector<int32_t> at(static_cast<size_t>(nodes()));
  std::iota(at.begin(), at.end(), 0);
  for (size_t place = 0; place < order.size(); ++place)
    at[static_cast<size_t>(order[place])] = static_cast<int32_t>(place);
  return at;
}

void require_metis(GraphPartition partition) {
  if (partition == GraphPartition::metis && !has_metis())
    throw ConfigError("", "net.partition", "is metis, and this program was built without METIS",
                      "install libmetis-dev and build again, or set it to bands");
}

EdgeSet renumbered(const EdgeSet& edges, const Partition& senders, const Partition& receivers) {
  const std::vector<int32_t> sender_at = senders.places();
  const auto width = static_cast<int64_t>(edges.features.size() / std::max<size_t>(1, edges.senders.size()));
  EdgeSet out;
  for (int64_t place = 0; place < receivers.nodes(); ++place) {
    const int64_t node = receivers.order.empty() ? place : receivers.order[static_cast<size_t>(place)];
    out.receiver_offsets.push_back(static_cast<int32_t>(out.senders.size()));
    const int64_t begin = edges.receiver_offsets[static_cast<size_t>(node)],
                  end = edges.receiver_offsets[static_cast<size_t>(node) + 1];
    for (int64_t e = begin; e < end; ++e) {
      out.senders.push_back(sender_at[static_cast<size_t>(edges.senders[static_cast<size_t>(e)])]);
      out.receivers.push_back(static_cast<int32_t>(place));
    }
    out.features.insert(out.features.end(), edges.features.begin() + width * begin,
                        edges.features.begin() + width * end);
  }
  out.receiver_offsets.push_back(static_cast<int32_t>(out.senders.size()));
  out.list_by_sender(senders.nodes());
  return out;
}

#ifdef ISOBAR_WITH_METIS

namespace {

// Neighbours of every node, with nodes of all kinds numbered consecutively; each undirected pair counts once
// a side
struct Neighbours {
  std::vector<idx_t> offsets{0}, of;
};

Neighbours neighbours_of(const std::vector<int64_t>& first, const std::vector<EdgesBetween>& edges) {
  std::vector<std::pair<idx_t, idx_t>> pairs;
  for (const EdgesBetween& b : edges)
    for (size_t e = 0; e < b.edges->senders.size(); ++e) {
      const auto s = static_cast<idx_t>(first[b.from] + b.edges->senders[e]),
                 r = static_cast<idx_t>(first[b.to] + b.edges->receivers[e]);
      if (s == r) continue;
      pairs.emplace_back(s, r);
      pairs.emplace_back(r, s);
    }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  Neighbours out;
  out.offsets.assign(static_cast<size_t>(first.back()) + 1, 0);
  for (const auto& [from, to] : pairs) {
    ++out.offsets[static_cast<size_t>(from) + 1];
    out.of.push_back(to);
  }
  std::partial_sum(out.offsets.begin(), out.offsets.end(), out.offsets.begin());
  return out;
}

// Nodes grouped by rank, in their old order within a rank
Partition in_order(const std::vector<idx_t>& rank_of, int64_t first, int64_t nodes, int64_t ranks) {
  Partition p;
  p.parts.assign(static_cast<size_t>(ranks), 0);
  for (int64_t r = 0; r < ranks; ++r)
    for (int64_t i = 0; i < nodes; ++i)
      if (rank_of[static_cast<size_t>(first + i)] == r) {
        p.order.push_back(static_cast<int32_t>(i));
        ++p.parts[static_cast<size_t>(r)];
      }
  return p;
}

}  // namespace

bool has_metis() {
  return true;
}

std::vector<Partition> metis_partition(const std::vector<int64_t>& nodes, const std::vector<Evenly>& evenly,
                                       const std::vector<EdgesBetween>& edges, int64_t ranks) {
  std::vector<int64_t> first{0};
  for (const int64_t of_kind : nodes) first.push_back(first.back() + of_kind);
  auto all = static_cast<idx_t>(first.back()), constraints = static_cast<idx_t>(evenly.size());
  std::vector<idx_t> rank_of(static_cast<size_t>(all), 0);
  if (ranks > 1) {
    std::vector<idx_t> weight(static_cast<size_t>(all) * evenly.size(), 0);
    for (size_t k = 0; k < evenly.size(); ++k)
      for (size_t i = 0; i < evenly[k].weights.size(); ++i)
        weight[(static_cast<size_t>(first[evenly[k].kind]) + i) * evenly.size() + k] =
            static_cast<idx_t>(evenly[k].weights[i]);
    Neighbours graph = neighbours_of(first, edges);
    idx_t options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_OBJTYPE] = METIS_OBJTYPE_VOL;  // minimise rows exchanged, not edges cut
    options[METIS_OPTION_SEED] = 1;
    options[METIS_OPTION_NUMBERING] = 0;
    std::vector<real_t> slack;
    for (const Evenly& e : evenly) slack.push_back(static_cast<real_t>(e.slack));
    auto parts = static_cast<idx_t>(ranks);
    idx_t volume = 0;
    if (METIS_PartGraphKway(&all, &constraints, graph.offsets.data(), graph.of.data(), weight.data(), nullptr,
                            nullptr, &parts, nullptr, slack.data(), options, &volume,
                            rank_of.data()) != METIS_OK)
      throw std::runtime_error("METIS cut no graph of " + std::to_string(all) + " nodes in " +
                               std::to_string(ranks));
  }
  std::vector<Partition> out;
  for (size_t k = 0; k < nodes.size(); ++k) out.push_back(in_order(rank_of, first[k], nodes[k], ranks));
  return out;
}

#else

bool has_metis() {
  return false;
}

std::vector<Partition> metis_partition(const std::vector<int64_t>&, const std::vector<Evenly>&,
                                       const std::vector<EdgesBetween>&, int64_t) {
  throw std::logic_error("this program was built without METIS");
}

#endif

}  // namespace isobar::nets
