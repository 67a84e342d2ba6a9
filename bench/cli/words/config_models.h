// isobar config models: the run configurations that come with Isobar.
#pragma once
#include <CLI/CLI.hpp>

namespace isobar::cli {

void add_models_command(CLI::App& config);

}  // namespace isobar::cli
