#include "bench/cli/words/config_models.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "model/base/system/files.h"
#include "model/nets/build.h"
#include "perfmodel/machine/shipped.h"
#include "reports/tables/tables.h"

namespace isobar::cli {
namespace {

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

}  // namespace

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

}  // namespace isobar::cli
