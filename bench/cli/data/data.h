// `isobar data make | stats | inspect`: the data module on the command line.
#pragma once
#include <CLI/CLI.hpp>

namespace isobar::cli {

/// Adds the subcommand. Bad input ends in ConfigError, thrown out of CLI::App::parse.
void add_data_commands(CLI::App& app);
void add_tokens(CLI::App& data);

}  // namespace isobar::cli
