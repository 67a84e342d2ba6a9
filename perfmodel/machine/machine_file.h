// Machine files by name, as given to commands.
//
//   machine_file("perlmutter")             // …/configs/machines/perlmutter.yaml
//   machine_file("results/machine.yaml")   // a path is kept
//
// Searches the folders of $ISOBAR_MACHINES (a site's own, separated by colons), then Isobar's: here, beside
// the program's build, where it was installed or built.
#pragma once
#include <string>

namespace isobar::perf {

/// The path of a named machine; a path is returned unchecked. Throws ConfigError with the nearest names if
/// there is none. `where` it was named, for the error.
std::string machine_file(const std::string& named, const std::string& where = "--machine");

}  // namespace isobar::perf
