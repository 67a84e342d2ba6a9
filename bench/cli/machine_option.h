// The option by which commands name a machine: a file, or one that comes with Isobar by its name.
//
//   add_machine_option(*command, a->machine, "Machine file to predict with");
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace isobar {

/// `--machine`; `path` gets the file that was meant. Throws ConfigError for a name that no machine has.
CLI::Option* add_machine_option(CLI::App& command, std::string& path, const std::string& description);
/// The same that may be repeated.
CLI::Option* add_machine_option(CLI::App& command, std::vector<std::string>& paths,
                                const std::string& description);

}  // namespace isobar
