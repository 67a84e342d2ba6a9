// CPUs available to this process: physical cores, limited by affinity and by the cgroup quota of a container
// or job, and NUMA nodes.
//
//   const CpuPlaces p = cpu_places();
//   p.usable()                       // threads that are worth having: 8 on 16 hardware threads of 8 cores
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

namespace isobar::engine {

struct CpuPlaces {
  int threads = 1;              // hardware threads in the process's affinity
  int cores = 1;                // physical cores of these threads
  int nodes = 1;                // NUMA nodes of these threads
  std::optional<double> quota;  // CPU seconds a second that cgroups allow; absent: no limit

  /// One thread a core, at most what the quota keeps busy.
  int usable() const;
};

/// The CPUs of `allowed` by core, several a core with hardware threads, ordered by their first CPU.
std::vector<std::vector<int>> cpus_of_cores(const std::vector<int>& allowed,
                                            const std::filesystem::path& root = "/");

/// `allowed`: CPU numbers. `root`: prefix of /sys and /proc; missing information means one thread a core, one
/// node, no limit.
CpuPlaces cpu_places(const std::vector<int>& allowed, const std::filesystem::path& root = "/");
CpuPlaces cpu_places();  // for this process

}  // namespace isobar::engine
