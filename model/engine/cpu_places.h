// The cores that this process may use: hardware threads of one core count once, what a control group (a
// container, a job) allows is kept to, and NUMA nodes are told.
//
//   const CpuPlaces p = cpu_places();
//   p.usable()                       // threads that are worth having: 8 on 16 hardware threads of 8 cores
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

namespace isobar {

struct CpuPlaces {
  int threads = 1;              // hardware threads, of the process's affinity
  int cores = 1;                // that they belong to
  int nodes = 1;                // NUMA nodes that they lie in
  std::optional<double> quota;  // seconds of CPU a second that control groups allow; absent: no limit

  /// A thread for each core, and no more than the quota keeps running.
  int usable() const;
};

/// Of `allowed`, CPUs by number, those of each core: several where it has hardware threads. In order of the
/// first ones.
std::vector<std::vector<int>> cpus_of_cores(const std::vector<int>& allowed,
                                            const std::filesystem::path& root = "/");

/// `allowed`: CPUs by number. `root`: what is above /sys and /proc; what is not told there is taken as one
/// thread a core, one node, no limit.
CpuPlaces cpu_places(const std::vector<int>& allowed, const std::filesystem::path& root = "/");
CpuPlaces cpu_places();  // of this process

}  // namespace isobar
