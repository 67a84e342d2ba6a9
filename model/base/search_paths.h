// Where programs and libraries that are named without a folder are looked for.
#pragma once
#include <string>
#include <vector>

namespace isobar {

/// Takes the empty and relative parts out of PATH, LD_LIBRARY_PATH and PYTHONPATH: they are the working
/// directory, and what lies beside somebody's data would run. For a program's first lines: this process, and
/// all that it starts, keep to absolute folders. The loader read LD_LIBRARY_PATH before that.
void keep_to_absolute_search_paths();
/// The variables that had such parts.
const std::vector<std::string>& relative_search_paths();

/// The parts of a list that are absolute folders; a library path may have semicolons for colons.
std::vector<std::string> absolute_parts(const std::string& list, const std::string& separators = ":");

}  // namespace isobar
