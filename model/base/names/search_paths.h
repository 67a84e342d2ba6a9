// Search paths of programs and libraries that are named without a folder.
#pragma once
#include <string>
#include <vector>

namespace isobar {

/// Removes empty and relative parts from PATH, LD_LIBRARY_PATH and PYTHONPATH: they mean the working
/// directory, whose files would be run. To be called first in main, for this process and its children; only
/// the loader has read LD_LIBRARY_PATH before.
void keep_to_absolute_search_paths();
/// The variables that had such parts.
const std::vector<std::string>& relative_search_paths();

/// The absolute folders in a list; a library path may be separated by semicolons.
std::vector<std::string> absolute_parts(const std::string& list, const std::string& separators = ":");

}  // namespace isobar
