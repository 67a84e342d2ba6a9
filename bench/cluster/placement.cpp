#include "bench/cluster/placement.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace isobar::cluster {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
  return out;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::vector<RankPlace> launch_map(const ClusterSpec& c, const std::vector<std::string>& nodes,
                                  int64_t ranks) {
  if (static_cast<int64_t>(nodes.size()) < c.nodes(ranks))
    throw std::runtime_error(std::to_string(ranks) + " ranks need " + std::to_string(c.nodes(ranks)) +
                             " nodes, and the job has " + std::to_string(nodes.size()));
  std::vector<RankPlace> map;
  for (int64_t r = 0; r < ranks; ++r) {
    const int64_t local = r % c.ranks_per_node;
    map.push_back({r, nodes[r / c.ranks_per_node], local, c.cores.empty() ? "" : c.cores[local]});
  }
  return map;
}

nlohmann::json to_json(const std::vector<RankPlace>& map) {
  nlohmann::json j = nlohmann::json::array();
  for (const RankPlace& p : map)
    j.push_back({{"rank", p.rank}, {"node", p.node}, {"local_rank", p.local}, {"cores", p.cores}});
  return j;
}

std::string core_mask(const std::string& cores) {
  std::string digits = "0";  // hexadecimal, least first
  const char* at = cores.c_str();
  while (*at) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (end == at || first < 0 || last < first || last > 1 << 16)
      throw std::runtime_error("'" + cores + "' is no list of cores");
    for (long core = first; core <= last; ++core) {
      const auto digit = static_cast<size_t>(core / 4);
      if (digits.size() <= digit) digits.resize(digit + 1, '0');
      const char was = digits[digit];
      const int value = (was <= '9' ? was - '0' : was - 'a' + 10) | (1 << (core % 4));
      digits[digit] = "0123456789abcdef"[value];
    }
    at = *end == ',' ? end + 1 : end;
  }
  std::reverse(digits.begin(), digits.end());
  return "0x" + digits;
}

std::string rankfile_text(const std::vector<RankPlace>& map) {
  std::string text;
  for (const RankPlace& p : map)
    text += "rank " + std::to_string(p.rank) + "=" + p.node + " slot=" + p.cores + "\n";
  return text;
}

std::vector<std::string> start_command(const ClusterSpec& c, const std::vector<std::string>& all,
                                       int64_t ranks, const std::vector<std::string>& program,
                                       const std::string& name, const std::filesystem::path& rankfile) {
  const std::vector<std::string> nodes(all.begin(), all.begin() + c.nodes(ranks));
  const std::string n = std::to_string(ranks), each = std::to_string(std::min(ranks, c.ranks_per_node));
  std::vector<std::string> out;
  if (c.start == "srun") {
    out = {"srun",
           "--nodes=" + std::to_string(nodes.size()),
           "--ntasks=" + n,
           "--ntasks-per-node=" + each,
           "--distribution=block:block",
           "--nodelist=" + joined(nodes, ","),
           "--job-name=" + name,
           "--kill-on-bad-exit=1"};
    // Since Slurm 22.05 a step no longer takes this from its job.
    if (!c.exclusive) out.push_back("--cpus-per-task=" + std::to_string(c.cores_per_rank()));
    if (!c.cores.empty()) {
      std::vector<std::string> masks;
      for (int64_t i = 0; i < std::min(ranks, c.ranks_per_node); ++i) masks.push_back(core_mask(c.cores[i]));
      out.push_back("--cpu-bind=mask_cpu:" + joined(masks, ","));
    }
  } else if (c.start == "pals") {
    out = {"mpiexec", "-n", n, "--ppn", each, "--hosts", joined(nodes, ","), "--genvall"};
    if (!c.cores.empty())
      out.push_back("--cpu-bind=list:" +
                    joined({c.cores.begin(), c.cores.begin() + std::min(ranks, c.ranks_per_node)}, ":"));
  } else {
    std::vector<std::string> slots;
    slots.reserve(nodes.size());
    for (const std::string& node : nodes) slots.emplace_back(node).append(":").append(each);
    out = {"mpiexec", "-n", n, "--host", joined(slots, ",")};
    if (c.cores.empty())
      append(out, {"--map-by", "ppr:" + each + ":node", "--bind-to", "none", "--oversubscribe"});
    else
      append(out, {"--rankfile", rankfile.string()});
    if (::geteuid() == 0) out.emplace_back("--allow-run-as-root");
  }
  append(out, c.start_options);
  append(out, program);
  return out;
}

}  // namespace isobar::cluster
