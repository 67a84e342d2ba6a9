#include "bench/cli/words/config_schema.h"

#include <cstdio>
#include <memory>

#include "bench/cluster/cluster.h"
#include "bench/sweep/sweep_keys.h"
#include "model/base/spec/spec_schema.h"
#include "perfmodel/machine/machine_keys.h"

namespace isobar::cli {
namespace {

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

}  // namespace

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

}  // namespace isobar::cli
