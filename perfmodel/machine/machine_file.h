// Machine files by name, as people give them to a command.
//
//   machine_file("perlmutter")             // …/configs/machines/perlmutter.yaml
//   machine_file("results/machine.yaml")   // a path stays one
//
// A name is looked for in the folders of $ISOBAR_MACHINES (a site's own, with colons between), then among the
// files that come with Isobar: here, beside the program's build, where it was installed or built from.
#pragma once
#include <string>

namespace isobar {

/// The path of what was named. Throws ConfigError with the nearest names where there is no such machine; a
/// path is left to whoever reads it. `where` it was named, for the error.
std::string machine_file(const std::string& named, const std::string& where = "--machine");

}  // namespace isobar
