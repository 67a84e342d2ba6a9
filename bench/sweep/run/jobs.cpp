#include "bench/sweep/run/jobs.h"

#include <algorithm>

#include "bench/sweep/results/resultsdir.h"
#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "model/records/trial_id.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const char* const kAgain = "submit the sweep again";

}  // namespace

std::string JobDir::id() const {
  return word_in(dir_ / "id");
}

void JobDir::write_id(const std::string& id) const {
  write_atomically(dir_ / "id", id + "\n");
}

json JobDir::description() const {
  const std::string file = dir_ / "job.json";
  json j = read_json(file);
  if (!j.is_object() || j.value("schema", json(0)) != json(1))
    throw ConfigError(file, "schema", "is no job of this version", kAgain);
  require_shape(
      j, file,
      {{"/cluster", "object"},
       {"/cluster/scheduler", "string"},
       {"/time_s", "number"},
       {"/warmup", "integer"},
       {"/lead_s", "number"},
       {"/lead_from", "string"},
       {"/needed", "integer"},
       {"/self", "string"},
       {"/trainer", "string"},
       {"/rank_output", "string"},
       {"/limits/timeout_s", "number"},
       {"/limits/timeout_given", "boolean"},
       {"/limits/hang_s",
        j.contains("/limits/hang_s"_json_pointer) && j["limits"]["hang_s"].is_null() ? "null" : "number"},
       {"/limits/memory_limit_mb", "integer"},
       {"/limits/grace_s", "number"},
       {"/limits/noise_limit", "number"},
       {"/trials", "array"}},
      kAgain);
  for (const json& t : j["trials"]) require_shape(t, file, {{"/id", "string"}}, kAgain);
  return j;
}

std::string JobDir::owner() const {
  return word_in(dir_ / "owner");
}

// state.json is written first and never removed, so a life that begins at that moment cannot undo it.
bool JobDir::closed() const {
  return fs::exists(dir_ / "state.json") || owner() == "closed";
}

void JobDir::close(const std::string& state) const {
  write_atomically(dir_ / "state.json",
                   json_text(json({{"schema", 1}, {"id", id()}, {"state", state}})) + "\n");
  write_atomically(dir_ / "owner", "closed\n");
}

int64_t JobDir::begin_life() const {
  if (closed()) return 0;
  const int64_t life = std::atoll(owner().c_str()) + 1;
  write_atomically(dir_ / "owner", std::to_string(life) + "\n");
  return closed() ? 0 : life;
}

bool JobDir::is_life(int64_t life) const {
  return owner() == std::to_string(life) && !closed();
}

std::vector<std::string> open_jobs(const fs::path& results) {
  std::vector<std::string> names;
  if (!fs::is_directory(results / "jobs")) return names;
  for (const auto& entry : fs::directory_iterator(results / "jobs"))
    if (fs::exists(entry.path() / "job.json") && !JobDir(results, entry.path().filename().string()).closed())
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string claimed_by(const fs::path& trial_dir) {
  return word_in(trial_dir / "claim");
}

void claim(const fs::path& trial_dir, const std::string& job) {
  write_atomically(trial_dir / "claim", job + "\n");
}

void release(const fs::path& trial_dir) {
  fs::remove(trial_dir / "claim");
}

std::string trial_state(const fs::path& results, const std::string& trial) {
  const fs::path dir = results / "trials" / trial;
  const std::string job = claimed_by(dir);
  const bool has_job =
      !job.empty() && fs::exists(results / "jobs" / job / "job.json") && !JobDir(results, job).closed();
  if (fs::exists(dir / "status.json")) {
    const json j = json_if_there(dir / "status.json");
    const bool again = has_job && j.is_object() && j.value("final", json(true)) == json(false);
    if (j.is_object() && !again) {
      const json own = j.value("class", json("planned"));
      return own.is_string() ? own.get<std::string>() : "planned";
    }
    return "submitted";
  }
  if (has_job) return word_in(dir / "started_by") == job ? "running" : "submitted";
  return fs::exists(dir / "attempt") ? "running" : "planned";
}

json to_json(const Trial& t) {
  json j = {{"id", t.id},
            {"repetition", t.repetition},
            {"repeats", t.repeats},
            {"axes", object_of(t.axes)},
            {"spec", to_json(t.spec)}};
  if (t.forecast)
    j["forecast"] = {{"step_s", t.forecast->step_s},
                     {"upper_s", t.forecast->upper_s},
                     {"ceiling_s", t.forecast->ceiling_s},
                     {"checkpoint_s", t.forecast->checkpoint_s}};
  return j;
}

Trial trial_from_json(const json& j, const std::string& file) {
  require_shape(j, file,
                {{"/id", "string"},
                 {"/repetition", "integer"},
                 {"/repeats?", "string"},
                 {"/axes", "object"},
                 {"/spec", "object"},
                 {"/forecast?", "object"}},
                kAgain);
  Trial t;
  t.id = j.at("id").get<std::string>();
  records::require_trial_id(t.id, file);
  t.repetition = j.at("repetition").get<int64_t>();
  t.repeats = j.value("repeats", std::string());
  for (const auto& [key, value] : j.at("axes").items()) t.axes.emplace_back(key, value);
  t.spec = run_spec_from_record(j.at("spec"), file);
  if (j.contains("forecast")) {
    const json& f = j["forecast"];
    require_shape(f, file,
                  {{"/step_s", "number"},
                   {"/upper_s", "number"},
                   {"/ceiling_s", "number"},
                   {"/checkpoint_s?", "number"}},
                  kAgain);
    t.forecast = Forecast{.step_s = f.at("step_s"),
                          .upper_s = f.at("upper_s"),
                          .ceiling_s = f.at("ceiling_s"),
                          .checkpoint_s = f.value("checkpoint_s", 0.0)};
  }
  return t;
}

}  // namespace isobar::sweep
