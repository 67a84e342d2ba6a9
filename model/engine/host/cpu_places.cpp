#include "model/engine/host/cpu_places.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "model/base/system/cpus.h"
#include "model/engine/host/control_groups.h"

namespace isobar::engine {
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

// CPU quota of one cgroup, version 1 or 2
std::optional<double> quota_of(const fs::path& group) {
  const std::string both = first_line(group / "cpu.max");
  if (const size_t blank = both.find(' '); blank != std::string::npos)
    return ratio(both.substr(0, blank), both.substr(blank + 1));
  return ratio(first_line(group / "cpu.cfs_quota_us"), first_line(group / "cpu.cfs_period_us"));
}

std::optional<double> quota(const fs::path& root) {
  std::optional<double> least;
  for (const fs::path& group : control_groups("cpu", root))
    if (const auto q = quota_of(group); q && (!least || *q < *least)) least = q;
  return least;
}

fs::path cpu_folder(const fs::path& root, int cpu) {
  return root / ("sys/devices/system/cpu/cpu" + std::to_string(cpu));
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

std::vector<std::vector<int>> cpus_of_cores(const std::vector<int>& allowed, const fs::path& root) {
  std::map<std::string, size_t> known;  // index by the core's list of hardware threads
  std::vector<std::vector<int>> out;
  for (const int c : allowed) {
    const std::string siblings = first_line(cpu_folder(root, c) / "topology/thread_siblings_list");
    const auto [at, first] = known.try_emplace(siblings.empty() ? std::to_string(c) : siblings, out.size());
    if (first) out.emplace_back();
    out[at->second].push_back(c);
  }
  return out;
}

CpuPlaces cpu_places(const std::vector<int>& allowed, const fs::path& root) {
  std::set<std::string> nodes;
  for (const int c : allowed) nodes.insert(node_of(cpu_folder(root, c)));
  const auto count = [](const auto& all) { return std::max(1, static_cast<int>(all.size())); };
  return {count(allowed), count(cpus_of_cores(allowed, root)), count(nodes), quota(root)};
}

CpuPlaces cpu_places() {
  return cpu_places(process_cpus());
}

}  // namespace isobar::engine
