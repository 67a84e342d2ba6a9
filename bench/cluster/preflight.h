// What a pilot learns of its nodes before the first trial (`isobar preflight`, a rank on each of them), and
// which of them it had better leave out.
//
//   for (const SlowNode& s : slow_nodes_in("preflight.json", nodes)) …  s.node, s.reason
//
// Links are measured between pairs of nodes, all pairs of a round at a time, in rounds that pair each node
// with others in turn. A node's link is the middle of its rates: a node with a sick adapter is slow with all
// its partners, and each of them is slow with that one node only.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar {

/// Rank `rank`'s partner in a round (0 … rounds_of(size) - 1) of a tournament of `size` ranks in which every
/// pair meets once; -1: it rests.
int64_t partner_of(int64_t rank, int64_t round, int64_t size);
int64_t rounds_of(int64_t size);

/// The middle of what was measured with several partners, the faster of two; 0 without partners.
double link_of(std::vector<double> rates);

struct SlowNode {
  std::string node, reason;
};
/// Which of the nodes (in the order of `nodes`) are slow: less than `share` of the median in matrix rate,
/// copy bandwidth or link; each with the reason. With two nodes there is one link, and no telling whose fault
/// it is: links are judged from three nodes on.
std::vector<SlowNode> slow_nodes(const nlohmann::json& measured, const std::vector<std::string>& nodes,
                                 double share = 0.7);
/// Of what `isobar preflight -o FILE` wrote. Throws ConfigError.
std::vector<SlowNode> slow_nodes_in(const std::filesystem::path& file, const std::vector<std::string>& nodes);

}  // namespace isobar
