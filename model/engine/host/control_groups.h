// Control groups (containers, jobs) that this process is in, by either version of Linux's interface.
//
//   for (const std::filesystem::path& group : control_groups("memory")) read(group / "memory.max");
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace isobar::engine {

/// The folders of the process's group of a controller and of all groups above it, whose limits hold as well.
/// A container may see its own as the topmost. `root`: what is above /sys and /proc.
std::vector<std::filesystem::path> control_groups(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

}  // namespace isobar::engine
