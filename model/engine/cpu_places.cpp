#include "model/engine/cpu_places.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

namespace isobar {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "max 100000", "150000 100000"
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  char* end = nullptr;
  const double q = std::strtod(quota.c_str(), &end), p = std::strtod(period.c_str(), nullptr);
  if (end == quota.c_str() || q <= 0 || p <= 0) return {};
  return q / p;
}

// Of one group, by either version of the interface
std::optional<double> quota_of(const fs::path& group) {
  const std::string both = first_line(group / "cpu.max");
  if (const size_t blank = both.find(' '); blank != std::string::npos)
    return ratio(both.substr(0, blank), both.substr(blank + 1));
  return ratio(first_line(group / "cpu.cfs_quota_us"), first_line(group / "cpu.cfs_period_us"));
}

// The least of the process's groups and of all above them. A container may see its own as the topmost.
std::optional<double> quota(const fs::path& root) {
  std::optional<double> least;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",cpu,") == std::string::npos) continue;
    const fs::path top = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/cpu");
    for (fs::path at = fs::path(line.substr(second + 1)).relative_path();; at = at.parent_path()) {
      if (const auto q = quota_of(top / at); q && (!least || *q < *least)) least = q;
      if (at.empty()) break;
    }
  }
  return least;
}

std::string node_of(const fs::path& cpu) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cpu, none))
    if (const std::string name = entry.path().filename(); name.starts_with("node")) return name;
  return "node0";
}

}  // namespace

int CpuPlaces::usable() const {
  return quota ? std::clamp(static_cast<int>(*quota), 1, cores) : cores;
}

CpuPlaces cpu_places(const std::vector<int>& allowed, const fs::path& root) {
  std::set<std::string> cores, nodes;
  for (const int c : allowed) {
    const fs::path cpu = root / ("sys/devices/system/cpu/cpu" + std::to_string(c));
    const std::string siblings = first_line(cpu / "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(c) : siblings);
    nodes.insert(node_of(cpu));
  }
  const auto count = [](const auto& all) { return std::max(1, static_cast<int>(all.size())); };
  return {count(allowed), count(cores), count(nodes), quota(root)};
}

CpuPlaces cpu_places() {
  cpu_set_t set;
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) allowed.push_back(c);
  return cpu_places(allowed);
}

}  // namespace isobar
