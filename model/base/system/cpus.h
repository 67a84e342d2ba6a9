// The CPUs that this process may run on, by number.
#pragma once
#include <vector>

namespace isobar {

/// CPUs of the whole process, not of the calling thread: with OMP_PROC_BIND the runtime has bound the first
/// thread to its own place before main, so its mask is smaller. Empty where the system does not report them.
std::vector<int> process_cpus();

}  // namespace isobar
