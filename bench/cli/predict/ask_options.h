// Options that predict, search, compare, budget and emit share, in the groups that their help shows.
//
//   add_run_options(*command, *a);              // CONFIG, --machine, --set, --global-batch, --engine …
//   command->callback([a, command] { check_run_options(*command, *a); … });
#pragma once
#include <CLI/CLI.hpp>

#include "bench/cli/predict/ask.h"

namespace isobar::cli {

/// The run, the machine, and the engine that is predicted. `several`: --machine may be repeated.
void add_run_options(CLI::App& command, AskArguments& a, bool several = false);
/// --gpus and what narrows a search; `required`: a search is all that the command does.
void add_search_options(CLI::App& command, AskArguments& a, bool required);
/// --tokens and --samples: a training's length.
void add_training_options(CLI::App& command, AskArguments& a);
/// --ranks and --ranks-on-host, of the configuration's own layout.
void add_rank_options(CLI::App& command, AskArguments& a);
void add_what_if_option(CLI::App& command, AskArguments& a);
/// --deadline and --budget.
void add_limit_options(CLI::App& command, AskArguments& a);
/// --json, and -o where the command writes a page.
void add_output_options(CLI::App& command, AskArguments& a, bool page);

/// Takes --machine and --global-batch over. Throws ConfigError for options that contradict each other in any
/// of these commands.
void take_options(const CLI::App& command, AskArguments& a);

}  // namespace isobar::cli
