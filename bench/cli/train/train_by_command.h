// isobar train by run.command: somebody else's program (bench/guest).
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/cli/train/train_arguments.h"

namespace isobar::cli {

/// Throws ConfigError where what the command line gives does not reach run.command. `given`: its --set.
void require_words_for(const std::vector<std::string>& given, const TrainArguments& a, const RunSpec& spec);
/// Trains; ends with the exit code of a training of ours.
void train_by_command(TrainArguments a, const CLI::App& command);

}  // namespace isobar::cli
