// The option that names a machine: a file, or a shipped machine by its name.
//
//   add_machine_option(*command, a->machine, "Machine file to predict with");
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace isobar::cli {

/// `--machine`; `path` gets the file. Throws ConfigError for a name that no machine has.
CLI::Option* add_machine_option(CLI::App& command, std::string& path, const std::string& description);
/// The same option, repeatable.
CLI::Option* add_machine_option(CLI::App& command, std::vector<std::string>& paths,
                                const std::string& description);

}  // namespace isobar::cli
