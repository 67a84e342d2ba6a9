// isobar config schema: JSON schemas of the files that users write, for editors.
#pragma once
#include <CLI/CLI.hpp>

namespace isobar::cli {

void add_schema_command(CLI::App& config);

}  // namespace isobar::cli
