// isobar machine: a machine file to start from, and the keys that it may have.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/cli/commands.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/machine/machine_keys.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewHelp = R"(Writes a copy of a machine file under another name, sources and comments
included: put in your own prices, powers, networks and storage, and read a prediction with it.

Examples:
  isobar machine new --from dgx-h100 -o mine.yaml
  isobar search configs/models/llama3-8b.yaml --machine mine.yaml --gpus 64
  isobar machine keys)";

struct NewArguments {
  std::string from, out;
};

void write_new(const NewArguments& a) {
  const std::string from = perf::machine_file(a.from);
  const fs::path out = a.out;
  if (fs::exists(out)) throw ConfigError(a.out, "", "is there already", "give another name, or edit it");
  const std::string name = out.stem().string();
  std::string text = read_file(from);
  const size_t key = text.starts_with("name:") ? 0 : text.find("\nname:") + 1;
  if (text.compare(key, 5, "name:") == 0)
    text.replace(key, std::min(text.find('\n', key), text.size()) - key, "name: " + name);
  perf::parse_machine(text, a.out);
  write_atomically(out, text);
  std::printf("%s: a copy of %s\n", a.out.c_str(), from.c_str());
}

void print_keys() {
  std::printf("%-42s %-16s %10s %10s\n", "key", "unit", "from", "to");
  for (const perf::Bounds& b : perf::machine_keys())
    std::printf("%-42s %-16s %10.3g %10.3g\n", b.key.c_str(), b.unit.c_str(), b.least, b.most);
}

}  // namespace

void add_machine_command(CLI::App& app) {
  CLI::App* machine = app.add_subcommand("machine", "Start a machine file, or list its keys");
  machine->require_subcommand(1);
  machine->footer(kNewHelp);
  auto a = std::make_shared<NewArguments>();
  CLI::App* fresh = machine->add_subcommand("new", "Start a machine file from one that is like it");
  fresh->footer(kNewHelp);
  fresh->add_option("--from", a->from, "A machine file, or the name of a shipped one")->required();
  fresh->add_option("-o,--out", a->out, "The file to write")->required();
  fresh->callback([a] { write_new(*a); });
  CLI::App* keys = machine->add_subcommand("keys", "List every key with its unit and its plausible range");
  keys->footer("What the keys mean: configs/README.md, \"Machines\".");
  keys->callback([] { print_keys(); });
}

}  // namespace isobar::cli
