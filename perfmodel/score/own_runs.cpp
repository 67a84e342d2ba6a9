#include "perfmodel/score/own_runs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "perfmodel/score/published/published_spec.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

constexpr const char* kMend = "write it anew: isobar fit RUNS.csv --machine M --engine E -o FILE";

}  // namespace

OwnRuns own_runs(std::string table, const std::string& file, const std::string& engine,
                 std::optional<double> tuned, const Machine& machine) {
  if (engine != "unknown") engine_named(engine);  // throws with the known names
  return {engine, tuned, machine.name, file, std::move(table)};
}

void save_own_runs(const OwnRuns& own, const std::string& path) {
  json j = {{"fit", "own runs"},
            {"engine", own.engine},
            {"machine", own.machine},
            {"file", own.file},
            {"table", own.table}};
  if (own.tuned) j["tuned"] = *own.tuned;
  write_atomically(path, j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

OwnRuns load_own_runs(const std::string& path, const Machine& machine) {
  const json j = parse_json(read_file(path, most::table, "--fit"));
  if (!j.is_object() || !j.contains("fit") || j["fit"] != "own runs")
    throw ConfigError(path, "fit", "is not said to be of own runs", kMend);
  OwnRuns own;
  for (const auto& [key, into] : {std::pair{"engine", &own.engine},
                                  {"machine", &own.machine},
                                  {"file", &own.file},
                                  {"table", &own.table}}) {
    if (!j.contains(key) || !j[key].is_string()) throw ConfigError(path, key, "is no text", kMend);
    *into = j[key].get<std::string>();
  }
  if (j.contains("tuned")) {
    const json& t = j["tuned"];
    if (!t.is_number() || !(t >= 0 && t <= 1)) throw ConfigError(path, "tuned", "is not from 0 to 1", kMend);
    own.tuned = t.get<double>();
  }
  own.file = path + " (" + own.file + ")";  // for errors
  const auto& engines = shipped_engines();
  if (own.engine != "unknown" && std::none_of(engines.begin(), engines.end(),
                                              [&](const ForeignEngine& e) { return e.name == own.engine; }))
    throw ConfigError(path, "engine", "'" + own.engine + "' is in no file of configs/engines", kMend);
  if (own.machine != machine.name)
    throw ConfigError(path, "machine", "is " + own.machine + ", not " + machine.name,
                      "name its machine file with --machine, or fit runs on this one");
  return own;
}

std::vector<PublishedRun> runs_of(const OwnRuns& own, const Machine& machine, const ChipSpec& chip) {
  const Surroundings around{own.engine == "unknown" ? nullptr : &engine_named(own.engine), &chip,
                            static_cast<double>(machine.accelerator->host.ranks)};
  const PublishedTable table = published_from(parse_csv(own.table, own.file), &around);
  for (const auto& [why, line] : table.first_refused)
    throw ConfigError(own.file, "line " + std::to_string(line), why, "mend the row, or leave it out");
  for (const OpenRun& o : table.open)
    throw ConfigError(
        own.file, "line " + std::to_string(o.candidates.front().line),
        "leaves " + o.missing.front() + " open: nothing is learnt from what a run may have been",
        "fill it in, or leave the row out");
  if (table.runs.empty())
    throw ConfigError(own.file, "", "holds no run with a step time or throughput", "add one");
  std::vector<PublishedRun> runs = table.runs;
  for (PublishedRun& r : runs) as_asked(r);
  return runs;
}

}  // namespace isobar::perf
