// isobar config: shows a run's configuration with all defaults, compares two, and lists the keys there are.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "bench/cluster/cluster.h"
#include "bench/sweep/sweep_keys.h"
#include "model/base/error.h"
#include "model/base/names/other_names.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/spec/spec_schema.h"
#include "model/base/system/files.h"
#include "model/base/text/yaml.h"
#include "model/nets/build.h"
#include "model/records/results.h"
#include "perfmodel/machine/machine_keys.h"
#include "perfmodel/machine/shipped.h"
#include "reports/tables/tables.h"

namespace isobar::cli {
namespace {

// isobar config models: the run configurations that come with Isobar.

constexpr const char* kModelsHelp =
    R"(Every command that takes a run configuration takes these names, too; a file of that name in this folder comes first.

  isobar config models llama
  isobar predict llama3-70b --machine dgx-h100 --gpus 64
  isobar predict path/to/config.json --machine dgx-h100       # Hugging Face's, of the types that isobar import reads)";

// The first sentence of the comment that a file begins with
std::string about(const std::string& file) {
  const std::string text = read_file(file);
  std::string out;
  for (size_t at = 0; at < text.size() && text[at] == '#';) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t from = text.find_first_not_of("# ", at);
    if (from < end) out += (out.empty() ? "" : " ") + text.substr(from, end - from);
    at = end + 1;
  }
  for (const char* stop : {". ", ": ", "; "}) out = out.substr(0, out.find(stop));
  return out.ends_with(".") ? out.substr(0, out.size() - 1) : out;
}

// The whole net's, as one rank holds it
int64_t parameters_of(RunSpec spec) {
  spec.layout = {};
  spec.policy = {};
  spec.train.global_batch = spec.policy.micro_batch = 1;
  return nets::build_plan(spec, 0, {}).parameter_count();
}

void print_models(const std::string& part, bool json) {
  report::Table t{"models",
                  "",
                  {report::text_column("name"), report::text_column("net"),
                   report::number_column("parameters"), report::text_column("about")},
                  {},
                  ""};
  for (const std::string& file : perf::files_in(perf::shipped("configs/models"), ".yaml")) {
    const std::string name = std::filesystem::path(file).stem().string();
    if (name.find(part) == std::string::npos) continue;
    const RunSpec spec = load_run_spec(file);
    t.rows.push_back({report::text(name), report::text(spec.net.kind()), report::integer(parameters_of(spec)),
                      report::text(about(file))});
  }
  if (json)
    std::printf("%s\n", report::to_json(t).dump(1).c_str());
  else
    std::fputs(report::to_text(t).c_str(), stdout);
}

void add_models_command(CLI::App& config) {
  struct Arguments {
    std::string part;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* c = config.add_subcommand("models", "List the configurations that come with Isobar, by name");
  c->footer(kModelsHelp);
  c->add_option("TEXT", a->part, "Only names that hold this text");
  c->add_flag("--json", a->json, "Print JSON on stdout");
  c->callback([a] { print_models(a->part, a->json); });
}

// isobar config schema: JSON schemas of the files that users write, for editors.

constexpr const char* kSchemaHelp =
    R"(An editor with a YAML language server completes keys, shows what they mean and marks errors by it:

  isobar config schema run > isobar-run.json
  # yaml-language-server: $schema=isobar-run.json            (first line of a run configuration)

Rules across keys are checked by the commands alone.)";

nlohmann::json cluster_schema() {
  nlohmann::json properties = nlohmann::json::object();
  for (const std::string& key : cluster::cluster_keys()) properties[key] = nlohmann::json::object();
  return object_schema(std::move(properties));
}

void add_schema_command(CLI::App& config) {
  auto of = std::make_shared<std::string>();
  CLI::App* c = config.add_subcommand("schema", "Print the JSON schema of run, sweep or machine files");
  c->footer(kSchemaHelp);
  c->add_option("FILE", *of, "Kind of file")->required()->check(CLI::IsMember({"run", "sweep", "machine"}));
  c->callback([of] {
    const nlohmann::json schema = *of == "run"     ? run_schema()
                                  : *of == "sweep" ? sweep::sweep_schema()
                                                   : perf::machine_schema(cluster_schema());
    std::printf("%s\n", schema.dump(1).c_str());
  });
}

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
