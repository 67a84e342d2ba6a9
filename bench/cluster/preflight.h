// Detection of slow nodes from measurements before the first trial (`isobar preflight`, one rank a node).
//
//   for (const SlowNode& s : slow_nodes_in("preflight.json", nodes)) …  s.node, s.reason
//
// Links are measured between pairs of nodes, all pairs of a round at a time, in rounds that pair each node
// with others in turn. A node's link rate is the median over its partners: a node with a faulty adapter is
// slow with all of them, and each of them is slow with that node only.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar::cluster {

/// Rank `rank`'s partner in a round (0 … rounds_of(size) - 1) of a round-robin tournament of `size` ranks;
/// -1: it rests.
int64_t partner_of(int64_t rank, int64_t round, int64_t size);
int64_t rounds_of(int64_t size);

/// The median of the rates with several partners, the faster of two; 0 without partners.
double link_of(std::vector<double> rates);

struct SlowNode {
  std::string node, reason;
};
/// Slow nodes (in the order of `nodes`), each with the reason: less than `share` of the median in matrix
/// rate, copy bandwidth or link. Two nodes have only one link, which cannot show the faulty side: links are
/// judged from three nodes on.
std::vector<SlowNode> slow_nodes(const nlohmann::json& measured, const std::vector<std::string>& nodes,
                                 double share = 0.7);
/// Slow nodes by a file that `isobar preflight -o FILE` wrote. Throws ConfigError.
std::vector<SlowNode> slow_nodes_in(const std::filesystem::path& file, const std::vector<std::string>& nodes);

}  // namespace isobar::cluster
