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

// Machine files by name, as given to commands.
//
// Searches the folders of $ISOBAR_MACHINES (a site's own, separated by colons), then Isobar's: here, beside
// the program's build, where it was installed or built.

/// The path of a named machine; a path is returned unchecked. Throws ConfigError with the nearest names if
/// there is none. `where` it was named, for the error.
std::string machine_file(const std::string& named, const std::string& where = "--machine");

}  // namespace isobar::perf
