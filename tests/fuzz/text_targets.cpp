// Files that users write: sweep, model and machine files (with the cluster section) and tables of runs.
#include <algorithm>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "bench/cluster/cluster.h"
#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/csv_table.h"
#include "model/base/text/yaml.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/score/counts/collective_model.h"
#include "perfmodel/score/own_runs.h"
#include "perfmodel/score/published/published_run.h"
#include "reports/live/http.h"
#include "reports/reference.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

void read_sweep(const std::string& file) {
  const sweep::SweepSpec s = sweep::load_sweep_spec(file);
  size_t combinations = 1;  // a single combination, to keep expansion short
  for (const sweep::Axis& a : s.axes) combinations *= std::min<size_t>(a.values.size(), 1000);
  if (combinations * static_cast<size_t>(s.repetitions) <= 64) sweep::expand(s);
}

void read_machine(const std::string& file) {
  perf::load_machine(file);
  const nlohmann::json j = load_yaml(file);
  if (j.contains("cluster")) cluster::cluster_from_json(j["cluster"], file);
}

// The head of an HTTP request, as sent by a browser to the built-in servers.
void read_head(const std::string& file) {
  const std::optional<report::HttpRequest> r = report::parse_head(read_file(file));
  if (!r) throw ConfigError(file, "", "is no head of a request", "send one of HTTP/1.1");
  if (r->path.find('\0') != std::string::npos || !r->path.starts_with('/'))
    throw std::logic_error("a path that no file may have: " + r->path);
}

constexpr const char* kMachine = "configs/machines/dgx-a100.yaml";

std::string reference_seed() {
  const nlohmann::json line = {{"experiment", "0123456789abcdef"},
                               {"label", "2 ranks, bf16"},
                               {"step_s", 0.012},
                               {"cpu", "Some CPU"},
                               {"statistic", "median"},
                               {"update", 1},
                               {"noise", {{"variance", 1e-4}, {"df", 9}}},
                               {"commit", "0123abc"}};
  return line.dump() + "\n" + line.dump() + "\n";
}

std::string own_runs_seed(const fs::path& source) {
  const nlohmann::json j = {
      {"fit", "own runs"},
      {"engine", "megatron"},
      {"machine", perf::load_machine((source / kMachine).string()).name},
      {"file", "mine.csv"},
      {"tuned", 0.5},
      {"table",
       "arch,layers,hidden,heads,seq_len,gpus,tp,pp,micro_batch,global_batch,step_time_s\n"
       "gpt,30,4096,32,1024,8,1,2,3,96,3.5\n"}};
  return j.dump(1) + "\n";
}

}  // namespace

std::vector<Target> text_targets(const fs::path& source, const fs::path& folder) {
  std::ofstream(folder / "base.yaml") << "net: {embed_dim: 64, depth: 1}\ntrain: {global_batch: 8}\n";
  const auto all = [&](const char* room, const char* suffix, size_t most) {
    std::vector<std::string> texts;
    for (const auto& entry : fs::directory_iterator(source / "configs" / room))
      if (entry.path().extension() == suffix) {
        std::string text = read_file(entry.path());
        if (text.size() > most) text.resize(text.rfind('\n', most) + 1);
        texts.push_back(std::move(text));
      }
    std::sort(texts.begin(), texts.end());
    return texts;
  };
  std::vector<Target> t = {
      {"sweep", "mutated.yaml", all("sweeps", ".yaml", 4000), true, read_sweep},
      {"model", "mutated.yaml", all("models", ".yaml", 4000), true, [](const auto& f) { load_run_spec(f); }},
      {"machine", "mutated.yaml", all("machines", ".yaml", 4000), true, read_machine},
      {"runs", "mutated.csv", all("published", ".csv", 3000), true,
       [](const auto& f) { perf::read_published(f); }},
      {"collectives",
       "mutated.csv",
       {read_file(source / "configs/published/collectives.csv").substr(0, 3000)},
       true,
       [](const auto& f) { perf::collectives_from(read_csv(f)); }},
      {"reference",
       "mutated.jsonl",
       {reference_seed()},
       true,
       [](const auto& f) { report::read_reference(f); }},
      {"own runs", "mutated.json", {own_runs_seed(source)}, true, [source](const auto& f) {
         const perf::Machine m = perf::load_machine((source / kMachine).string());
         perf::runs_of(perf::load_own_runs(f, m), m, perf::chip_of(m));
       }}};
  for (Target& each : t) each.keyed = true;
  t.push_back({"request",
               "mutated.head",
               {"GET /0123abc/page/a%20b/%C3%BC.html?token=1&b=%zz HTTP/1.1\r\nHost: 127.0.0.1:43121\r\n"
                "Accept: */*\r\nCookie: a=b; c\r\n\r\n",
                "HEAD / HTTP/1.0\r\nhost:x\r\n: \r\n\r\nbody"},
               false,
               read_head});
  for (std::string& s : t[0].seeds)  // the base file beside the input
    for (size_t at = 0; (at = s.find("../models/", at)) != std::string::npos;)
      s.replace(at, s.find(".yaml", at) - at, "base");
  t[1].seeds.emplace_back("a: &a [1, 2]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nd: [*c, *c, *c]\n");
  t[2].seeds.push_back(
      t[2].seeds.front() +
      "\ncluster: {scheduler: pbs, start: pals, ranks_per_node: 2, cores: [4-7, 8-11], queue: debug,\n"
      "  preamble: [[source, /x]], environment: {A: 1}, directives: [-lfilesystems=home], retries: 2}\n");
  return t;
}

}  // namespace isobar::fuzz
