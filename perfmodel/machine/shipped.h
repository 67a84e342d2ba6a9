// Folders that come with Isobar, and the files in them.
//
//   for (const std::string& file : files_in(shipped("configs/engines"), ".yaml")) load_engine(file);
#pragma once
#include <string>
#include <vector>

namespace isobar::perf {

/// "configs/machines": of the program's own tree (model/base/system/program.h). Throws ConfigError where it
/// is not there.
std::string shipped(const std::string& folder);

/// The paths of a folder's files with this ending (".yaml"), sorted. Throws ConfigError if there are none: a
/// missing folder must not pass for an empty list.
std::vector<std::string> files_in(const std::string& folder, const std::string& ending);

}  // namespace isobar::perf
