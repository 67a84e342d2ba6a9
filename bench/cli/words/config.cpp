// isobar config: shows a run's configuration with all defaults, compares two, and lists the keys there are.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "bench/cli/commands.h"
#include "bench/cli/words/config_models.h"
#include "bench/cli/words/config_option.h"
#include "bench/cli/words/config_schema.h"
#include "model/base/error.h"
#include "model/base/names/other_names.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/text/yaml.h"
#include "model/records/results.h"
#include "reports/tables/tables.h"

namespace isobar::cli {
namespace {

constexpr const char* kConfigHelp =
    R"(A configuration is a YAML file, with --set for the keys to override, or the folder of a run that was made.

  isobar config show configs/models/vit-384.yaml --set policy.amp=bf16     # every key with its value, as YAML
  isobar config diff configs/models/vit-384.yaml configs/models/vit-1536.yaml
  isobar config diff runs/before runs/after
  isobar config keys train.lr                                              # keys with this text, and what they mean)";

struct ConfigArguments {
  std::string first, second;
  std::vector<std::string> set;
  bool json = false, markdown = false;
};

// With inheritance and overrides applied, defaults filled in and values checked.
nlohmann::json resolved(const std::string& named, const std::vector<std::string>& set) {
  if (std::filesystem::is_directory(named)) {
    std::vector<std::string> problems;
    const records::RunRecord run = records::load_run(named, &problems);
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
  report::Table t{"diff",
                  "",
                  {report::text_column("key"), report::text_column(a.first), report::text_column(a.second)},
                  {},
                  ""};
  for (const std::string& key : keys)
    if (!before.contains(key) || !after.contains(key) || before.at(key) != after.at(key))
      t.rows.push_back(
          {report::text(key), report::text(shown(before, key)), report::text(shown(after, key))});
  if (a.json)
    std::printf("%s\n",
                report::to_json(t).dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  else if (t.rows.empty())
    std::puts("The two are the same.");
  else
    std::fputs(report::to_text(t).c_str(), stdout);
}

// Keys whose name or meaning contains a text, aligned for a terminal; --markdown prints the wide tables.
void print_keys(const ConfigArguments& a) {
  std::vector<SpecKey> keys;
  for (SpecKey& k : spec_keys())
    if (k.key.find(a.first) != std::string::npos || k.help.find(a.first) != std::string::npos)
      keys.push_back(std::move(k));
  const std::string other = mend_of_other_name(a.first, "VALUE", false);
  if (keys.empty() && !other.empty())
    throw ConfigError("isobar config keys", a.first, "is a name of other software", other);
  if (keys.empty())
    throw ConfigError("isobar config keys", a.first, "is in no key and no meaning",
                      "give a part of a name, e.g. train.lr, or leave it out");
  if (a.markdown) {
    std::fputs(spec_keys_markdown(keys).c_str(), stdout);
    return;
  }
  for (const SpecKey& k : keys) {
    std::string nets;
    for (const std::string& net : k.nets) nets += (nets.empty() ? "" : " ") + net;
    std::printf("%s%s\n    %s\n    %s%s%s, default %s\n", k.key.c_str(),
                k.every_net ? "" : ("  (" + nets + ")").c_str(), k.help.c_str(), k.type.c_str(),
                k.values.empty() ? "" : " ", k.values.c_str(), k.preset.empty() ? "empty" : k.preset.c_str());
  }
}

}  // namespace

void add_config_commands(CLI::App& app) {
  auto a = std::make_shared<ConfigArguments>();
  CLI::App* config = app.add_subcommand(
      "config", "Show a composed run configuration, compare two, list all keys and models");
  config->require_subcommand(1);
  config->footer(kConfigHelp);
  CLI::App* s = config->add_subcommand("show", "Print every key with its value, as YAML");
  add_config_option(*s, a->first, "CONFIG", "Run configuration, or a run's folder", true)->required();
  s->add_option("--set", a->set, "Override a key (repeatable)")->allow_extra_args(false);
  s->add_flag("--json", a->json, "Print JSON on stdout");
  s->callback([a] {
    if (!a->set.empty() && std::filesystem::is_directory(a->first))
      throw ConfigError("isobar config show", "--set", "is for configurations, and this run was made",
                        "leave it out");
    show(*a);
  });
  CLI::App* d = config->add_subcommand("diff", "Print the keys in which two configurations differ");
  add_config_option(*d, a->first, "A", "Run configuration, or a run's folder", true)->required();
  add_config_option(*d, a->second, "B", "Another", true)->required();
  d->add_flag("--json", a->json, "Print JSON on stdout");
  d->callback([a] { diff(*a); });
  add_models_command(*config);
  add_schema_command(*config);
  CLI::App* k = config->add_subcommand("keys", "List every key: its meaning, allowed values and default");
  k->add_option("TEXT", a->first, "Only keys whose name or meaning holds this text");
  k->add_flag("--markdown", a->markdown, "Print the tables of configs/keys.md");
  k->callback([a] { print_keys(*a); });
}

}  // namespace isobar::cli
