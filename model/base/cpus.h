// The CPUs that this process may run on, by number.
#pragma once
#include <vector>

namespace isobar {

/// Of the whole process: with OMP_PROC_BIND the runtime has bound the first thread to its own place before
/// main, so that its mask says less. Empty where the system does not say.
std::vector<int> process_cpus();

}  // namespace isobar
