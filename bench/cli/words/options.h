// Options that the chosen mode of a command does not read are errors, because ignoring them would mislead.
//
//   refuse_unused(*command, {{"--seed", !by_chance, "is of a random part", "add --holdout 0.5"}, …});
//
// The run configuration of a command: a file, config.json of Hugging Face, or the name of a shipped one.
//
//   add_config_option(*command, a.config)->required();       // isobar predict llama3-70b --machine dgx-h100
//
// The option that names a machine: a file, or a shipped machine by its name.
//
//   add_machine_option(*command, a->machine, "Machine file to predict with");
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/step_stats.h"

namespace isobar::cli {

struct Unused {
  const char* option;
  bool unused;       // in this mode
  std::string what;  // why
  std::string mend;
};

/// Throws ConfigError for the first of these options that was given though unused.
void refuse_unused(const CLI::App& command, std::initializer_list<Unused> options);

/// A user's name and notes for a run or a sweep: they change neither the computation nor the id.
struct About {
  std::string name, note;
  std::vector<std::string> tags;
  nlohmann::json json() const;             // only given ones: {"name": "…", "note": "…", "tags": […]}
  std::vector<std::string> words() const;  // as options of a command line
};
void add_about_options(CLI::App& command, About& about);

/// Exit code of a training, by the name of its class (model/records/run_class.h).
int exit_code_of(const std::string& run_class);

/// Throws ConfigError where a `--set` assignment gives the key another value than the option does, which
/// would silently win.
void refuse_contradiction(const std::vector<std::string>& set, const std::string& key, int64_t value,
                          const std::string& option);

/// Throws ConfigError where the file exists, unless forced; a device or a pipe loses nothing.
void refuse_to_replace(const std::string& out, bool force);

/// --statistic, shared by all commands that take it.
CLI::Option* add_statistic_option(CLI::App& command, Statistic& s, const std::string& more = "");

/// Warns that a live page cannot draw.
void say_without_figures(const std::string& why);

/// --rank-output: first, all or files (bench/ranks/rank_output.h). `folder`: how help names the place of
/// files.
void add_rank_output_option(CLI::App& command, std::string& how, const std::string& folder);

/// A number from `low` to `high`; CLI::Range accepts NaN.
CLI::Validator number_in(double low, double high);
/// A number above 0, without NaN and infinity, that may have a suffix k, M, B (or G) or T: 1T tokens, 100k.
/// Becomes the number.
CLI::Validator amount();
/// 10d, 36h, 90m (or min), 600s. Becomes seconds.
CLI::Validator duration();

/// A name becomes its file, printed on stderr. `folders`: the command reads a run's folder, too.
CLI::Option* add_config_option(CLI::App& command, std::string& path, const std::string& name = "CONFIG",
                               const std::string& description = "Run configuration (YAML)",
                               bool folders = false);

/// `--machine`; `path` gets the file. Throws ConfigError for a name that no machine has.
CLI::Option* add_machine_option(CLI::App& command, std::string& path, const std::string& description);
/// The same option, repeatable.
CLI::Option* add_machine_option(CLI::App& command, std::vector<std::string>& paths,
                                const std::string& description);

}  // namespace isobar::cli
