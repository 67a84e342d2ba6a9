// isobar config: what a run's configuration comes to, and in what two of them differ.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "bench/cli/commands.h"
#include "bench/sweep/results.h"
#include "model/base/error.h"
#include "model/base/yaml.h"
#include "reports/tables.h"

namespace isobar {
namespace {

constexpr const char* kConfigHelp =
    R"(A configuration is a YAML file, with --set for the keys to override, or the folder of a run that was made.

  isobar config show configs/models/vit-384.yaml --set policy.amp=bf16     # every key with its value, as YAML
  isobar config diff configs/models/vit-384.yaml configs/models/vit-1536.yaml
  isobar config diff runs/before runs/after)";

struct ConfigArguments {
  std::string first, second;
  std::vector<std::string> set;
  bool json = false;
};

// Inheritance followed, overrides made, defaults filled in, values checked.
nlohmann::json resolved(const std::string& named, const std::vector<std::string>& set) {
  if (std::filesystem::is_directory(named)) {
    std::vector<std::string> problems;
    const RunRecord run = load_run(named, &problems);
    if (!problems.empty())
      throw ConfigError(named, "", problems[0], "name a configuration, or a run's folder");
    return to_json(run.spec);
  }
  return to_json(load_run_spec(named, set));
}

std::map<std::string, nlohmann::json> flat(const nlohmann::json& spec) {
  std::map<std::string, nlohmann::json> out;
  for (const auto& [section, values] : spec.items())
    for (const auto& [key, value] : values.items()) out[section + "." + key] = value;
  return out;
}

std::string shown(const std::map<std::string, nlohmann::json>& values, const std::string& key) {
  const auto it = values.find(key);
  return it == values.end()       ? "-"
         : it->second.is_string() ? it->second.get<std::string>()
                                  : it->second.dump();
}

void show(const ConfigArguments& a) {
  const nlohmann::json spec = resolved(a.first, a.set);
  const auto replaced = nlohmann::json::error_handler_t::replace;
  std::fputs(a.json ? (spec.dump(1, ' ', false, replaced) + "\n").c_str() : to_yaml(spec).c_str(), stdout);
}

void diff(const ConfigArguments& a) {
  const auto before = flat(resolved(a.first, {})), after = flat(resolved(a.second, {}));
  std::set<std::string> keys;
  for (const auto* values : {&before, &after})
    for (const auto& one : *values) keys.insert(one.first);
  Table t{"diff", "", {text_column("key"), text_column(a.first), text_column(a.second)}, {}, ""};
  for (const std::string& key : keys)
    if (!before.contains(key) || !after.contains(key) || before.at(key) != after.at(key))
      t.rows.push_back({text(key), text(shown(before, key)), text(shown(after, key))});
  if (a.json)
    std::printf("%s\n", to_json(t).dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  else if (t.rows.empty())
    std::puts("The two are the same.");
  else
    std::fputs(to_text(t).c_str(), stdout);
}

}  // namespace

void add_config_commands(CLI::App& app) {
  auto a = std::make_shared<ConfigArguments>();
  CLI::App* config = app.add_subcommand("config", "Show a composed run configuration; compare two");
  config->require_subcommand(1);
  config->footer(kConfigHelp);
  CLI::App* s = config->add_subcommand("show", "Print every key with its value, as YAML");
  s->add_option("CONFIG", a->first, "Run configuration, or a run's folder")->required();
  s->add_option("--set", a->set, "Override a key (repeatable)")->allow_extra_args(false);
  s->add_flag("--json", a->json, "Print JSON on stdout");
  s->callback([a] {
    if (!a->set.empty() && std::filesystem::is_directory(a->first))
      throw ConfigError("isobar config show", "--set", "is for configurations, and this run was made",
                        "leave it out");
    show(*a);
  });
  CLI::App* d = config->add_subcommand("diff", "Print the keys in which two configurations differ");
  d->add_option("A", a->first, "Run configuration, or a run's folder")->required();
  d->add_option("B", a->second, "Another")->required();
  d->add_flag("--json", a->json, "Print JSON on stdout");
  d->callback([a] { diff(*a); });
}

}  // namespace isobar
