// What /proc tells about processes: descendants, resident memory, environment.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

/// All living descendants of `root`; zombies are left out.
std::vector<pid_t> descendants(pid_t root);
std::vector<pid_t> all_processes();
/// Resident memory that is neither file-backed nor shared; 0 when the process is gone.
int64_t private_bytes(pid_t pid);
/// Whether the environment with which `pid` was started holds exactly `entry`.
bool environment_has(pid_t pid, const std::string& entry);
/// How often the kernel's out-of-memory killer has struck since boot.
int64_t oom_kills();

}  // namespace isobar
