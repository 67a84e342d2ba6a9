#include "bench/cli/words/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/names/named_file.h"
#include "model/base/text/printed.h"
#include "model/comm/launcher.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::cli {
namespace {

// A number above 0 followed by a unit, which multiplies it.
CLI::Validator scaled(const std::string& shown, const std::string& refusal,
                      std::vector<std::pair<std::string, double>> units) {
  CLI::Validator v(shown);
  v.operation([=](std::string& text) {
    const char *begin = text.data(), *end = begin + text.size();
    double value = 0;
    const auto [rest, failed] = std::from_chars(begin, end, value);
    const std::string unit(rest, end);
    const auto at = std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == unit; });
    if (failed != std::errc() || at == units.end() || !std::isfinite(value * at->second) || !(value > 0))
      return text + " is not " + refusal;
    const std::string number = printed("%.17g", value * at->second);
    text = number;
    return std::string();
  });
  return v;
}

}  // namespace

void refuse_unused(const CLI::App& command, std::initializer_list<Unused> options) {
  for (const Unused& o : options)
    if (o.unused && command.count(o.option) > 0)
      throw ConfigError("isobar " + command.get_name(), o.option, o.what, o.mend);
}

nlohmann::json About::json() const {
  nlohmann::json j = nlohmann::json::object();
  if (!name.empty()) j["name"] = name;
  if (!note.empty()) j["note"] = note;
  if (!tags.empty()) j["tags"] = tags;
  return j;
}

std::vector<std::string> About::words() const {
  std::vector<std::string> out;
  if (!name.empty()) out.push_back("--name=" + name);
  if (!note.empty()) out.push_back("--note=" + note);
  for (const std::string& tag : tags) out.push_back("--tag=" + tag);
  return out;
}

int exit_code_of(const std::string& run_class) {
  if (run_class == "ok") return 0;
  return run_class == "bad_config" ? 2 : run_class == "numeric" ? 3 : run_class.starts_with("oom") ? 4 : 1;
}

void add_about_options(CLI::App& command, About& about) {
  command.add_option("--name", about.name, "Name shown in reports; changes nothing else");
  command.add_option("--tag", about.tags, "Label for searches and filters (repeatable)")
      ->allow_extra_args(false)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--note", about.note, "A remark, kept with the results");
}

void refuse_contradiction(const std::vector<std::string>& set, const std::string& key, int64_t value,
                          const std::string& option) {
  for (const std::string& one : set)
    if (one.starts_with(key + "=") && one != key + "=" + std::to_string(value))
      throw ConfigError(
          "--set", key,
          "is " + one.substr(key.size() + 1) + ", and " + option + " makes it " + std::to_string(value),
          "keep one of the two");
}

void refuse_to_replace(const std::string& out, bool force) {
  if (std::filesystem::is_directory(out))
    throw ConfigError(out, "", "is a folder, and a file is written", "name a file in it");
  if (std::filesystem::is_regular_file(out) && !force)
    throw ConfigError(out, "", "is there already", "give another -o, or --force to replace it");
  const std::filesystem::path folder = std::filesystem::path(out).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw ConfigError(out, "", "cannot be written: there is no folder " + folder.string(),
                      "make it: mkdir -p");
}

CLI::Option* add_statistic_option(CLI::App& command, Statistic& s, const std::string& more) {
  return command
      .add_option_function<std::string>(
          "--statistic", [&s](const std::string& name) { s = statistic_of(name, "isobar", "--statistic"); },
          "Step time of a run: median, p10 or min of its steps" + more)
      ->check(CLI::IsMember(statistic_names()))
      ->default_str(name_of(kStatistic));
}

void add_rank_output_option(CLI::App& command, std::string& how, const std::string& folder) {
  command
      .add_option(
          "--rank-output", how,
          "first: rank 0 prints, others only when they fail. all: every rank's lines, tagged with rank and "
          "host. files: a file a rank, " +
              folder + "/rank-0003.log")
      ->check(CLI::IsMember({"first", "all", "files"}))
      ->capture_default_str();
}

void say_without_figures(const std::string& why) {
  std::fprintf(stderr, "warning: the page has no figures: %s\n", why.c_str());
}

CLI::Validator number_in(double low, double high) {
  const std::string range = printed("%g to %g", low, high);
  CLI::Validator v("in [" + range + "]");
  v.operation([=](const std::string& text) {
    const char *begin = text.data(), *end = begin + text.size();
    double value = 0;
    const auto [rest, failed] = std::from_chars(begin, end, value);
    const bool number = failed == std::errc() && rest == end && std::isfinite(value);
    return number && value >= low && value <= high ? std::string() : text + " is not a number from " + range;
  });
  return v;
}

CLI::Validator amount() {
  return scaled("above 0, e.g. 1.5T", "a number above 0, with k, M, B or T behind it or nothing",
                {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}});
}

CLI::Validator duration() {
  return scaled("e.g. 10d or 36h", "a time like 10d, 36h, 90m or 600s",
                {{"d", 86400}, {"h", 3600}, {"m", 60}, {"min", 60}, {"s", 1}});
}

CLI::Option* add_config_option(CLI::App& command, std::string& path, const std::string& name,
                               const std::string& description, bool folders) {
  const std::string where = "isobar " + command.get_name();
  const CLI::Validator found(
      [where, folders](std::string& named) {
        std::error_code none;
        if (folders && std::filesystem::is_directory(named, none)) return std::string();
        const std::string file = run_file(named, where);
        if (file != named && comm::launched_rank(::getenv) <= 0)
          std::fprintf(stderr, "config %s: %s\n", named.c_str(), file.c_str());
        named = file;
        return std::string();
      },
      "", "");
  return command
      .add_option(
          name, path,
          description + ", Hugging Face's config.json, or a shipped model's name (isobar config models)")
      ->transform(found);
}

namespace {

template <class Paths>
CLI::Option* add_machines(CLI::App& command, Paths& paths, const std::string& description) {
  const CLI::Validator found(
      [](std::string& named) {
        const std::string file = perf::machine_file(named);
        if (file != named) std::fprintf(stderr, "machine %s: %s\n", named.c_str(), file.c_str());
        named = file;
        return std::string();
      },
      "", "");
  return command
      .add_option("--machine", paths, description + "; or the name of a shipped one, e.g. perlmutter")
      ->transform(found);
}

}  // namespace

CLI::Option* add_machine_option(CLI::App& command, std::string& path, const std::string& description) {
  return add_machines(command, path, description);
}

CLI::Option* add_machine_option(CLI::App& command, std::vector<std::string>& paths,
                                const std::string& description) {
  return add_machines(command, paths, description + "; may be repeated: side by side")
      ->allow_extra_args(false);
}

}  // namespace isobar::cli
