#include "bench/sweep/jobs.h"

#include <algorithm>
#include <fstream>

#include "bench/sweep/resultsdir.h"
#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string word_in(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

}  // namespace

std::string JobDir::id() const {
  return word_in(dir_ / "id");
}

void JobDir::write_id(const std::string& id) const {
  write_atomically(dir_ / "id", id + "\n");
}

json JobDir::description() const {
  json j = json::parse(read_file(dir_ / "job.json"), nullptr, false);
  if (!j.is_object() || j.value("schema", json(0)) != json(1))
    throw ConfigError((dir_ / "job.json").string(), "schema", "is no job of this version",
                      "submit the sweep again");
  return j;
}

std::string JobDir::owner() const {
  return word_in(dir_ / "owner");
}

// state.json is written first and never goes away: a life that begins in that moment cannot undo it.
bool JobDir::closed() const {
  return fs::exists(dir_ / "state.json") || owner() == "closed";
}

void JobDir::close(const std::string& state) const {
  write_atomically(dir_ / "state.json", json({{"schema", 1}, {"id", id()}, {"state", state}}).dump() + "\n");
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
    const json j = json::parse(read_file(dir / "status.json"), nullptr, false);
    const bool again = has_job && j.is_object() && j.value("final", json(true)) == json(false);
    if (j.is_object() && !again) return j.value("class", std::string("planned"));
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
                     {"ceiling_s", t.forecast->ceiling_s}};
  return j;
}

Trial trial_from_json(const json& j, const std::string& file) {
  Trial t;
  t.id = j.at("id").get<std::string>();
  t.repetition = j.at("repetition").get<int64_t>();
  t.repeats = j.value("repeats", std::string());
  for (const auto& [key, value] : j.at("axes").items()) t.axes.emplace_back(key, value);
  t.spec = run_spec_from_json(j.at("spec"), file);
  if (j.contains("forecast")) {
    const json& f = j["forecast"];
    t.forecast =
        Forecast{.step_s = f.at("step_s"), .upper_s = f.at("upper_s"), .ceiling_s = f.at("ceiling_s")};
  }
  return t;
}

}  // namespace isobar
