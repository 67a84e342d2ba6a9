// The CPUs that this process may run on, by number.
//
// How long CPUs have worked, by /proc/stat: on a busy machine longer than our own program has.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

namespace isobar {

/// CPUs of the whole process, not of the calling thread: with OMP_PROC_BIND the runtime has bound the first
/// thread to its own place before main, so its mask is smaller. Empty where the system does not report them.
std::vector<int> process_cpus();

/// Seconds that these CPUs together have worked for any program since the system started, or that a
/// hypervisor gave to others meanwhile (steal). Nothing where the kernel does not say so of all of them.
std::optional<double> busy_seconds(const std::vector<int>& cpus,
                                   const std::filesystem::path& stat = "/proc/stat");
/// Processor time of this process, all threads.
double own_cpu_seconds();

}  // namespace isobar
