// The run configuration of a command: a file, config.json of Hugging Face, or the name of a shipped one.
//
//   add_config_option(*command, a.config)->required();       // isobar predict llama3-70b --machine dgx-h100
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace isobar::cli {

/// A name becomes its file, printed on stderr. `folders`: the command reads a run's folder, too.
CLI::Option* add_config_option(CLI::App& command, std::string& path, const std::string& name = "CONFIG",
                               const std::string& description = "Run configuration (YAML)",
                               bool folders = false);

}  // namespace isobar::cli
