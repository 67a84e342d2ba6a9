#include "perfmodel/score/counts/collective_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "model/base/error.h"
#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/step/collective.h"

namespace isobar::perf {
namespace {

constexpr std::array<PriceInfo, 6> kCollectiveInfo{{
    {"call", 20e-6, 0.5, 0.4},     // seconds
    {"near_hop", 2e-6, 0.5, 0.5},  // seconds a hop inside a node
    {"far_hop", 8e-6, 0.5, 0.5},   // seconds a hop between nodes
    {"link", 1.3, 0.3, 0.3},       // 1/share of the rate
    {"nic", 1.3, 0.3, 0.3},
    {"tree", 1.3, 0.3, 0.2},  // slowdown of trees against rings
}};

struct RefusedCollective : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Number of times a ring passes the operand.
double passes_of(const std::string& collective) {
  if (collective == "allreduce") return 2;
  if (collective == "allgather" || collective == "reducescatter" || collective == "alltoall") return 1;
  throw RefusedCollective("collective '" + collective + "' is not modelled");
}

CollectiveRun run_from(const CsvRow& row) {
  CollectiveRun r;
  r.id = row.text("row_id");
  r.system = row.text("system");
  r.tool = row.text("tool");
  r.source = row.text("source");
  r.collective = row.text("collective");
  r.bytes = row.number("bytes");
  r.nodes = row.number("nodes");
  r.ranks = row.number("gpus");
  if (!(r.bytes > 0)) throw RefusedCollective("no message size");
  if (!(r.nodes >= 1) || !(r.ranks >= 2)) throw RefusedCollective("no number of nodes and GPUs");
  const double passes = passes_of(r.collective), share = passes * (r.ranks - 1) / r.ranks;
  r.seconds = 1e-6 * row.number("time_us");
  if (const double bus = row.number("busbw_GBs"); !(r.seconds > 0) && bus > 0)
    r.seconds = share * r.bytes / (bus * 1e9);
  if (!(r.seconds > 0)) throw RefusedCollective("no time or bandwidth");
  if (r.seconds > 1e3) throw RefusedCollective("the time stands for a failure");
  const ChipSpec* g = chip_named(row.text("gpu_type"), row.text("intra_node_link"));
  if (!g) throw RefusedCollective(unknown_chip(row.text("gpu_type")));
  const double together = r.ranks / r.nodes;
  if (together < 1) throw RefusedCollective("fewer GPUs than nodes");
  const Placement group{r.ranks, together};
  const CollectiveCounts ring = ring_counts(r.bytes, group, passes);
  CollectiveTraffic& c = r.traffic;
  c.ring_link_s = ring.wire_host / g->link_rate;
  c.ring_nic_s = ring.wire_net / g->nic_rate;
  c.near_hops = ring.message_host;
  c.far_hops = ring.message_net;
  if (r.collective == "allreduce" && r.nodes > 1) {
    const CollectiveCounts tree = tree_counts(r.bytes, group);
    c.tree_link_s = tree.wire_host / g->link_rate;
    c.tree_nic_s = tree.wire_net / g->nic_rate;
    c.tree_near_hops = tree.message_host;
    c.tree_far_hops = tree.message_net;
  }
  return r;
}

/// By the prices of kCollectiveInfo, in its order
double collective_seconds(const CollectiveTraffic& c, const double* prices) {
  const double call = prices[0], near_hop = prices[1], far_hop = prices[2], link = prices[3], nic = prices[4];
  const auto time = [&](double link_s, double nic_s, double near, double far) {
    return call + near * near_hop + far * far_hop + std::max(link_s * link, nic_s * nic);
  };
  const double ring = time(c.ring_link_s, c.ring_nic_s, c.near_hops, c.far_hops);
  if (c.tree_nic_s <= 0) return ring;
  return std::min(ring, prices[5] * time(c.tree_link_s, c.tree_nic_s, c.tree_near_hops, c.tree_far_hops));
}

}  // namespace

const Quantity kCollectiveSeconds{
    kCollectiveInfo.size(), kCollectiveInfo.data(), 0.15, 4, 0, [](const Sample& s, const double* prices) {
      return std::log(collective_seconds(s.traffic, prices));
    }};

CollectiveTable collectives_from(const CsvTable& csv) {
  static const std::vector<std::string> kNeeded = {"collective", "bytes",    "nodes",
                                                   "gpus",       "gpu_type", "time_us"};
  static const std::vector<std::string> kKnown = {
      "source",        "row_id", "system",           "intra_node_link", "inter_node_link",
      "gpus_per_node", "algo",   "algbw_GBs",        "busbw_GBs",       "in_place",
      "tool",          "method", "url_or_repo_path", "split",           "notes"};
  require_columns(csv, kNeeded, kKnown, "configs/published/README.md");
  CollectiveTable t{std::filesystem::path(csv.file).stem().string(), {}, {}};
  for (const CsvRow& row : csv.rows) {
    try {
      t.runs.push_back(run_from(row));
    } catch (const RefusedCollective& why) {
      ++t.refused[why.what()];
    }
  }
  return t;
}

Sample sample_of(const CollectiveRun& r) {
  Sample s;
  s.id = r.id;
  s.campaign = r.system;
  s.nodes = r.nodes;
  const std::string shape = std::to_string(r.nodes) + "x" + std::to_string(r.ranks / r.nodes);
  s.values = {{"", r.system + r.collective + shape + "/" + std::to_string(r.bytes)},
              {"layout", shape},
              {"gpus", std::to_string(r.ranks)},
              {"model", r.collective},
              {"precision", ""},
              {"machine", ""},
              {"source", r.source},
              {"section", r.collective}};
  s.traffic = r.traffic;
  s.log_s = std::log(r.seconds);
  s.features.resize(6);
  s.features << std::log2(r.bytes), std::log2(r.nodes), std::log2(r.ranks / r.nodes),
      3.0 * (r.collective == "allreduce"), 3.0 * (r.collective == "alltoall"), 2.0 * (r.nodes > 1);
  return s;
}

}  // namespace isobar::perf
