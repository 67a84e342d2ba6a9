// `isobar data make | stats | inspect`: the data module on the command line.
//
// Options of `isobar data` that select fields as the data.* keys do in a run.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>

#include "model/data/fields/field_choice.h"

namespace isobar::cli {

/// Adds the subcommand. Bad input ends in ConfigError, thrown out of CLI::App::parse.
void add_data_commands(CLI::App& app);
void add_tokens(CLI::App& data);

void add_field_options(CLI::App& command, const std::shared_ptr<data::FieldChoice>& choice);

/// `isobar data convert`
void add_convert(CLI::App& data);

}  // namespace isobar::cli
