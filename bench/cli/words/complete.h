// Continuations of a command line, from the commands' own tables of options and keys.
//
//   continuations(app, {"train", "--set", "train.lr_sc"})      // {"train.lr_scaling=", "train.lr_schedule="}
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace isobar::cli {

/// Words that complete the last of `words`, which follow the program's name. None: a file may follow.
std::vector<std::string> continuations(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace isobar::cli
