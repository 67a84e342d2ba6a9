// Process information from /proc: descendants, resident memory, environment.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace isobar::sweep {

/// All living descendants of `root`, without zombies.
std::vector<pid_t> descendants(pid_t root);
std::vector<pid_t> all_processes();
/// Resident memory that is neither file-backed nor shared; 0 if the process is gone.
int64_t private_bytes(pid_t pid);
/// True if the initial environment of `pid` contains exactly `entry`.
bool environment_has(pid_t pid, const std::string& entry);
/// OOM kills since boot.
int64_t oom_kills();

}  // namespace isobar::sweep
