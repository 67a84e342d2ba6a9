#include "bench/sweep/results.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"

namespace isobar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void report(std::vector<std::string>* problems, const std::string& what) {
  if (problems) problems->push_back(what);
}

// Fields of foreign or older files may be absent or of another type: they read as the fallback.
double number(const json& j, const char* key, double fallback = 0) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : fallback;
}
int64_t integer(const json& j, const char* key, int64_t fallback = 0) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number()) return fallback;
  if (it->is_number_integer()) return it->get<int64_t>();
  const double d = it->get<double>();
  return std::abs(d) < 9e18 ? static_cast<int64_t>(d) : fallback;
}
std::vector<double> numbers(const json& j, const char* key) {
  std::vector<double> out;
  if (const auto it = j.find(key); it != j.end() && it->is_array())
    for (const json& v : *it) out.push_back(v.is_number() ? v.get<double>() : kNaN);
  return out;
}

// Calls `use` for each event. A last line that a kill tore apart is no problem; a broken line before it is.
void for_each_event(const fs::path& file, std::vector<std::string>* problems,
                    const std::function<void(const json&)>& use) {
  const std::string text = read_file(file);
  size_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    ++line;
    size_t end = text.find('\n', begin);
    const bool last = end == std::string::npos || end + 1 == text.size();
    const bool torn = end == std::string::npos;
    if (torn) end = text.size();
    const json event = parse_json(std::string_view(text).substr(begin, end - begin));
    if (event.is_object() && event.contains("event") && event["event"].is_string())
      use(event);
    else if (end > begin && !(last && torn))
      report(problems, file.string() + ":" + std::to_string(line) + ": is no event, ignored");
    begin = end + 1;
  }
}

json read_json(const fs::path& file, std::vector<std::string>* problems) {
  if (!fs::exists(file)) return nullptr;
  json j = isobar::read_json(file);
  if (j.is_object()) return j;
  report(problems, file.string() + ": is not a JSON object, ignored");
  return nullptr;
}

void take_start(const json& e, RunRecord& r) {
  r.time_utc = text_in(e, "time_utc");
  r.ranks = integer(e, "ranks");
  r.ranks_on_host = integer(e, "ranks_on_host");
  r.threads = integer(e, "threads");
  r.plan_hash = text_in(e, "plan_hash");
  r.parameters = integer(e, "parameters");
  r.flops_forward_per_sample = number(e, "flops_forward_per_sample");
  const json memory = object_in(e, "memory");
  r.arena_bytes = integer(memory, "arena");
  r.memory_by_category.clear();
  const json categories = object_in(memory, "by_category");
  for (const auto& [name, bytes] : categories.items())
    if (bytes.is_number()) r.memory_by_category[name] = bytes.get<int64_t>();
  r.provenance = object_in(e, "provenance");
}

void take_step(const json& e, RunRecord& r) {
  StepRecord s;
  s.step = integer(e, "step");
  s.epoch = integer(e, "epoch");
  s.loss = number(e, "loss", kNaN);
  s.rmse = number(e, "rmse", kNaN);
  s.lr = number(e, "lr", kNaN);
  s.grad_norm = number(e, "grad_norm", kNaN);
  s.seconds = number(e, "seconds");
  s.samples_per_s = number(e, "samples_per_s");
  s.data_wait_s = number(e, "data_wait_s");
  s.rss_bytes = integer(e, "rss_bytes");
  r.steps.push_back(s);
}

void take_end(const json& e, RunRecord& r) {
  const json s = object_in(e, "step_s");
  r.step_s = {number(s, "median"), number(s, "p10"), number(s, "p90"), number(s, "min"), integer(s, "count")};
  r.peak_rss_bytes = integer(e, "peak_rss_bytes");
  r.unattributed_share = number(e, "unattributed_share");
  r.ops.clear();
  if (const auto it = e.find("ops"); it != e.end() && it->is_array())
    for (const json& op : *it)
      if (op.is_object()) {
        const json part = object_in(op, "part");
        r.ops.push_back({text_in(op, "path"), text_in(op, "kind"), text_in(op, "lane"), integer(op, "count"),
                         number(op, "seconds"), number(op, "flops"), number(op, "bytes"),
                         text_in(part, "kind"), text_in(part, "path")});
      }
}

// run_end's own statistics leave out 2 steps. They stand unless the sweep asked for another warm-up, or the
// run never came to its end; then the step events count, if they are all there.
void measure_steps(RunRecord& r) {
  constexpr int64_t kEngineWarmup = 2;
  if (r.steps.empty()) return;
  r.final_loss = r.steps.back().loss;
  double wait = 0;
  for (const StepRecord& s : r.steps) {
    r.peak_rss_bytes = std::max(r.peak_rss_bytes, s.rss_bytes);
    if (s.step > r.warmup && s.seconds > 0) wait += s.data_wait_s;
  }
  const std::vector<double> seconds = r.measured_steps();
  if (seconds.empty()) return;
  const auto count = static_cast<int64_t>(seconds.size());
  r.data_wait_s = wait / static_cast<double>(count);
  if (r.step_s.median > 0 && (r.warmup == kEngineWarmup || count != r.steps.back().step - r.warmup)) {
    r.step_s.count = std::max(r.step_s.count, count);  // older results do not say how many there were
    return;
  }
  r.step_s = step_stats(seconds);
}

void follow(const json& e, ResultTail& t) {
  t.last_event = text_in(e, "event");
  if (t.last_event == "run_start") t = {.started = true, .last_event = "run_start"};
  if (t.last_event == "step") t.last_step = integer(e, "step", -1);
  if (e.contains("op")) t.last_op = text_in(e, "op");
  if (t.last_event == "run_end") {
    t.ended = true;
    t.status = text_in(e, "status");
    t.failure = text_in(e, "class");
    t.message = text_in(e, "message");
  }
}

void take_spec(const json& j, const std::string& file, RunRecord& r, std::vector<std::string>* problems) {
  try {
    r.spec = run_spec_from_record(j, file);
  } catch (const ConfigError& e) {
    report(problems, e.what());
  }
}

}  // namespace

std::string experiment_of(const RunSpec& spec) {
  json j = to_json(spec);
  j["run"].erase("out");
  j["train"].erase("seed");
  for (const char* path : {"train", "valid", "means", "stds"}) j["data"].erase(path);
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

double step_error(const RunRecord& r, Statistic statistic) {
  return r.contention.marked ? contended_error(r.step_s) : own_error(r.measured_steps(), r.step_s, statistic);
}

RunToRun run_to_run_of(const std::vector<const RunRecord*>& runs, Statistic statistic) {
  std::map<std::string, std::vector<double>> groups;  // of one specification, measured by one engine
  for (const RunRecord* r : runs) {
    if (r->run_class != RunClass::ok || r->contention.marked || r->step_s.of(statistic) <= 0) continue;
    groups[experiment_of(r->spec) + text_in(r->provenance, "source")].push_back(
        std::log(r->step_s.of(statistic)));
  }
  std::vector<std::vector<double>> logs;
  for (auto& [key, of_one] : groups) logs.push_back(std::move(of_one));
  return run_to_run(logs);
}

std::vector<double> RunRecord::measured_steps() const {
  std::vector<double> out;
  for (const StepRecord& s : steps)
    if (s.step > warmup && s.seconds > 0) out.push_back(s.seconds);
  return out;
}

ResultTail read_tail(const fs::path& result_jsonl) {
  ResultTail t;
  if (fs::exists(result_jsonl)) for_each_event(result_jsonl, nullptr, [&](const json& e) { follow(e, t); });
  return t;
}

RunSpec spec_as_run(const RunRecord& r) {
  RunSpec s = r.spec;
  if (s.run.device == "auto") s.run.device = r.on_gpu ? "cuda" : "cpu";
  return s;
}

RunRecord load_run(const fs::path& dir, std::vector<std::string>* problems) {
  RunRecord r;
  r.dir = dir;
  r.id = fs::absolute(dir / ".").lexically_normal().parent_path().filename().string();
  ResultTail tail;
  json started_spec;
  std::set<int64_t> saved;  // steps
  const fs::path results = dir / "result.jsonl";
  if (fs::exists(results))
    for_each_event(results, problems, [&](const json& e) {
      follow(e, tail);
      const std::string event = text_in(e, "event");
      if (event == "run_start") {  // a resumed run starts again: the last start counts
        take_start(e, r);
        started_spec = object_in(e, "spec");
        r.steps.clear();
        r.valid.clear();
        r.checkpoints.clear();
        r.on_gpu = false;
      } else if (event == "device") {
        r.on_gpu = true;
      } else if (event == "step") {
        take_step(e, r);
      } else if (event == "valid") {
        r.valid.push_back({integer(e, "step"), number(e, "loss", kNaN), number(e, "seconds"),
                           numbers(e, "rmse"), numbers(e, "persistence_rmse")});
      } else if (event == "checkpoint") {
        // Older runs logged a checkpoint again where they came past it, and wrote nothing.
        if (saved.insert(integer(e, "step")).second)
          r.checkpoints.push_back({integer(e, "step"), number(e, "seconds")});
      } else if (event == "run_end") {
        take_end(e, r);
      }
    });

  const json trial = read_json(dir / "trial.json", problems);
  const json status = read_json(dir / "status.json", problems);
  json spec = trial.is_object() ? object_in(trial, "spec") : read_json(dir / "spec.json", problems);
  if (!spec.is_object() || spec.empty()) spec = started_spec;
  if (spec.is_object() && !spec.empty())
    take_spec(spec, (dir / "spec.json").string(), r, problems);
  else
    report(problems, dir.string() + ": no specification is left (trial.json, spec.json, run_start)");
  if (r.ranks == 0) r.ranks = r.spec.layout.world();
  if (r.ranks_on_host == 0) r.ranks_on_host = r.ranks;  // older results: started on one host
  if (trial.is_object()) {
    if (!text_in(trial, "id").empty()) r.id = text_in(trial, "id");
    r.repetition = integer(trial, "repetition");
    r.axes = object_in(trial, "axes");
    r.repeats = text_in(trial, "repeats");
    r.warmup = integer(trial, "warmup", r.warmup);
  }
  measure_steps(r);

  if (const auto own = status.is_object() ? run_class(text_in(status, "class")) : std::nullopt) {
    r.run_class = *own;
    r.message = text_in(status, "message");
    r.attempt = integer(status, "attempt");
    r.wall_s = number(status, "wall_s");
    if (r.peak_rss_bytes == 0) r.peak_rss_bytes = integer(status, "max_rss_bytes");
  } else if (tail.ended) {
    const auto failure = run_class(tail.failure);
    r.run_class = tail.status == "ok" ? RunClass::ok : failure.value_or(RunClass::crash);
    r.message = tail.message;
  } else {
    r.message = "no run_end and no verdict: it still runs, or was stopped with the sweep";
  }
  const json final = status.is_object() && status.contains("final") ? status["final"] : json();
  r.complete = final.is_boolean() ? final.get<bool>() : is_final(r.run_class);
  return r;
}

std::vector<RunRecord> load_runs(const fs::path& dir, std::vector<std::string>* problems) {
  if (!fs::is_directory(dir))
    throw ConfigError(dir.string(), "", "is not a directory of results",
                      "run `isobar sweep` or `isobar train` first");
  if (fs::exists(dir / "result.jsonl") || fs::exists(dir / "trial.json")) return {load_run(dir, problems)};
  const fs::path root = fs::is_directory(dir / "trials") ? dir / "trials" : dir;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory() &&
        (fs::exists(entry.path() / "trial.json") || fs::exists(entry.path() / "result.jsonl")))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::vector<RunRecord> out;
  for (const fs::path& folder : folders) {
    try {
      out.push_back(load_run(folder, problems));
    } catch (const std::exception& e) {  // one unreadable trial must not hide the others
      report(problems, folder.string() + ": " + e.what());
    }
  }
  mark_contended(out);
  return out;
}

std::string OpRecord::path_in_kind() const {
  if (part.empty() || part == part_kind || !path.starts_with(part)) return path;
  return part_kind + "*" + path.substr(part.size());
}

}  // namespace isobar
