// isobar import: machines and models of other performance models become ours.
#include "perfmodel/import.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {
namespace {

constexpr const char* kHelp =
    R"(Turns JSON files of Calculon (systems/, models/, executions) and of transformer-perf-estimates (config-*.json,
a model as {"l": 2048, "e": 25600, "h": 160, "depth": 128}) into a machine file or a run configuration.

Examples:
  isobar import systems/a100_80g.json -o a100.yaml
  isobar import models/megatron-1T.json examples/3072_t4_p64_d12_mbs4_full.json -o run.yaml
  isobar predict run.yaml --machine a100.yaml)";

nlohmann::json read(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw ConfigError(path, "", "cannot be read", "name a file that exists");
  nlohmann::json j = nlohmann::json::parse(in, nullptr, false);
  if (j.is_discarded()) throw ConfigError(path, "", "is no JSON", "give the file as its program reads it");
  return j;
}

void run(const std::vector<std::string>& files, const std::string& out) {
  std::string text;
  const nlohmann::json first = read(files[0]);
  if (is_machine(peer_file(first, files[0]))) {
    if (files.size() > 1)
      throw ConfigError(files[1], "", "comes behind a machine", "import one machine at a time");
    text = to_yaml(import_machine(first, files[0]));
  } else {
    nlohmann::json all = nlohmann::json::object();
    for (const std::string& f : files) all.merge_patch(import_model(read(f), f));
    text = all.dump(1) + "\n";  // JSON is YAML
  }
  if (out.empty())
    std::fputs(text.c_str(), stdout);
  else
    write_atomically(out, text);
}

}  // namespace

void add_import_command(CLI::App& app) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>();
  CLI::App* c =
      app.add_subcommand("import", "Machines and models of Calculon and transformer-perf-estimates");
  c->footer(kHelp);
  c->add_option("FILE", *files, "JSON files: one machine, or a model and its execution")->required();
  c->add_option("-o,--output", *out, "Where to write it; otherwise it is printed");
  c->callback([files, out] { run(*files, *out); });
}

}  // namespace isobar
