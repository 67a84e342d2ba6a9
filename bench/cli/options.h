// What a command is given and would ignore is an error: the options that one of its modes does not read.
//
//   refuse_unused(*command, {{"--top", !searches, "is for a search of layouts", "add --gpus N"}, …});
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar {

struct Unused {
  const char* option;
  bool unused;       // here and now
  std::string what;  // why
  std::string mend;
};

/// Throws ConfigError naming the first of these options that was given though it is unused.
void refuse_unused(const CLI::App& command, std::initializer_list<Unused> options);

/// What people call a run or a sweep: it changes nothing of what is computed, and no id.
struct About {
  std::string name, note;
  std::vector<std::string> tags;
  nlohmann::json json() const;             // of what was said: {"name": "…", "note": "…", "tags": […]}
  std::vector<std::string> words() const;  // as options of a command line
};
void add_about_options(CLI::App& command, About& about);

/// Throws ConfigError where one of the `--set` assignments gives the key another value than an option does,
/// which would win in silence.
void refuse_contradiction(const std::vector<std::string>& set, const std::string& key, int64_t value,
                          const std::string& option);

/// A number from `low` to `high`; CLI::Range takes NaN for one.
CLI::Validator number_in(double low, double high);
/// A number above 0 that is one: no NaN, no infinity.
CLI::Validator above_zero();
/// The same with k, M, B (or G) or T behind it: 1T tokens, 100k. Becomes the number.
CLI::Validator amount();
/// 10d, 36h, 90m (or min), 600s. Becomes seconds.
CLI::Validator duration();

}  // namespace isobar
