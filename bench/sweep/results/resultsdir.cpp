#include "bench/sweep/results/resultsdir.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "model/records/naming.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void refuse_other_schema(const fs::path& results) {
  const fs::path file = results / "sweep.json";
  if (!fs::exists(file)) return;
  const json j = isobar::read_json(file);
  if (j.is_object() && j.value("schema", json(0)) == json(1)) return;
  throw ConfigError(file.string(), "schema", "was written by another version",
                    "use another --results directory");
}

// DIR/tensorboard has the trials' curves by their names: tensorboard --logdir DIR/tensorboard. Names change
// when a sweep grows, so the links are made anew.
void link_curves(const Matrix& m, const SweepSpec& sweep, const fs::path& results) {
  const fs::path links = results / "tensorboard";
  std::error_code none;
  std::vector<fs::path> before;
  for (const auto& entry : fs::directory_iterator(links, none))
    if (entry.is_symlink()) before.push_back(entry.path());
  for (const fs::path& link : before) fs::remove(link);
  for (const Trial& t : m.trials) {
    if (!t.spec.run.tensorboard) continue;
    fs::create_directories(links);
    const std::string name = t.name.empty() ? fs::path(sweep.file).stem().string() : t.name;
    fs::path link = links / records::folder_name(name);
    if (fs::is_symlink(link)) link += " " + t.id;  // names that differ in a slash alone
    fs::create_directory_symlink(fs::path("../trials") / t.id / "tensorboard", link);
  }
}

}  // namespace

FileLock lock_results(const fs::path& dir, double wait_s) {
  FileLock lock;
  try {
    lock = FileLock(dir / "lock", wait_s);
  } catch (const std::system_error& e) {
    throw ConfigError((dir / "lock").string(), "", "cannot be locked: " + e.code().message(),
                      "make the directory writable, or use another --results");
  }
  if (!lock.held())
    throw ConfigError(dir.string(), "", "is in use by another sweep",
                      "wait for it, stop it, or use another --results");
  return lock;
}

void open_results(const fs::path& results) {
  std::error_code error;
  fs::create_directories(results / "trials", error);
  if (error || ::access((results / "trials").c_str(), W_OK | X_OK) != 0)
    throw ConfigError(results.string(), "",
                      "cannot be written: " + (error ? error.message() : std::strerror(errno)),
                      "make it writable, or use another --results");
  refuse_other_schema(results);
}

void write_matrix(const Matrix& m, const SweepSpec& sweep, const fs::path& results) {
  json about = sweep.about;
  if (about.empty())  // kept by a sweep that continues this one
    if (const json before = json_if_there(results / "sweep.json"); before.is_object())
      about = before.value("about", json::object());
  json j = {{"schema", 1},
            {"about", about},
            {"file", sweep.file},
            {"base", sweep.base},
            {"excluded", m.excluded},
            {"duplicates", m.duplicates},
            {"trials", json::array()},
            {"skipped", json::array()}};
  for (const Trial& t : m.trials)
    j["trials"].push_back({{"id", t.id},
                           {"name", t.name},
                           {"repetition", t.repetition},
                           {"repeats", t.repeats},
                           {"ranks", t.ranks()},
                           {"axes", object_of(t.axes)},
                           {"baseline", t.baseline}});
  for (const Skipped& s : m.skipped)
    j["skipped"].push_back({{"axes", object_of(s.axes)},
                            {"state", s.forecast ? "skipped_infeasible" : "skipped"},
                            {"reason", s.reason}});
  // Paths may have any encoding.
  link_curves(m, sweep, results);
  write_atomically(results / "sweep.json", j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

std::vector<records::RunRecord> collect_runs(const Matrix& m, const fs::path& results,
                                             SweepOutcome& outcome) {
  std::vector<std::string> problems;
  std::vector<records::RunRecord> all = records::load_runs(results, &problems);
  outcome.problems = std::move(problems);
  outcome.runs.clear();
  std::map<std::string, records::RunRecord*> by_id;
  for (records::RunRecord& r : all) by_id[r.id] = &r;
  for (const Trial& t : m.trials) {
    records::RunRecord r;
    if (const auto it = by_id.find(t.id); it != by_id.end()) {
      r = *it->second;
    } else {
      r.id = t.id;
      r.repetition = t.repetition;
      r.repeats = t.repeats;
      r.spec = t.spec;
      r.ranks = t.ranks();
      r.message = "not run yet";
    }
    r.axes = object_of(t.axes);
    outcome.runs.push_back(std::move(r));
  }
  return all;
}

double time_limit(const TrialLimits& l, const Trial& t) {
  if (l.timeout_given || !t.forecast || t.forecast->upper_s <= 0) return l.timeout_s;
  return 60 + 4 * t.forecast->upper_s * static_cast<double>(t.spec.train.steps);
}

ProcessLimits limits_of(const TrialLimits& l, const Trial& t) {
  // The run's own watchdog fires first and can name the op; this limit is for a run that cannot report any
  // more.
  return {.timeout_s = time_limit(l, t),
          .hang_s = l.hang_s.value_or(t.spec.run.hang_timeout + 30),
          .grace_s = l.grace_s,
          .memory_bytes = l.memory_limit_mb * 1'000'000};
}

Plausibility plausibility_of(const Trial& t, const TrialLimits& l) {
  return {.least_step_s = t.forecast ? t.forecast->ceiling_s : 0, .noise_limit = l.noise_limit};
}

}  // namespace isobar::sweep
