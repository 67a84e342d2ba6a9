#include "model/records/results.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/records/advice.h"
#include "model/records/files/result_file.h"

namespace isobar::records {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void report(std::vector<std::string>* problems, const std::string& what) {
  if (problems) problems->push_back(what);
}

// For files beside result.jsonl: absent keys and other types read as the fallback.
double number(const json& j, const char* key, double fallback = 0) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : fallback;
}
int64_t integer(const json& j, const char* key, int64_t fallback = 0) {
  const double d = number(j, key, kNaN);
  return std::abs(d) < 9e18 ? static_cast<int64_t>(d) : fallback;
}

json read_json(const fs::path& file, std::vector<std::string>* problems) {
  if (!fs::exists(file)) return nullptr;
  json j = isobar::read_json(file);
  if (j.is_object()) return j;
  report(problems, file.string() + ": is not a JSON object, ignored");
  return nullptr;
}

/// Accumulates the lines of result.jsonl; for a resumed run the last start counts.
class Gathered {
 public:
  explicit Gathered(RunRecord& r) : r_(r) {}

  json started_spec;
  ResultTail tail;

  void operator()(const StartRecord& s) {
    r_.time_utc = s.time_utc;
    r_.ranks = s.ranks;
    r_.ranks_on_host = s.ranks_on_host;
    r_.threads = s.threads;
    r_.plan_hash = s.plan_hash.value_or("");
    r_.parameters = s.parameters.value_or(0);
    r_.flops_forward_per_sample = s.flops_forward_per_sample.value_or(0);
    const MemoryRecord memory = s.memory.value_or(MemoryRecord());
    r_.arena_bytes = memory.arena;
    r_.memory_by_category = memory.by_category;
    r_.provenance = s.provenance;
    started_spec = s.spec;
    r_.steps.clear();
    r_.epochs.clear();
    r_.valid.clear();
    r_.checkpoints.clear();
    r_.ranks_record = {};
    r_.on_gpu = false;
    advisor_ = advisor_of(s);
    r_.advice.clear();
  }
  void operator()(const DeviceRecord& d) {
    r_.on_gpu = true;
    const auto bytes = [&](const char* key) { return d.gpu.value(key, int64_t{0}); };
    r_.process_bytes =
        d.gpu.value("ranks_share_a_gpu", false) ? 0 : bytes("context_bytes") + bytes("library_bytes");
  }
  void operator()(const SetUpRecord& s) { r_.set_up = s; }
  void operator()(const StepRecord& s) {
    r_.steps.push_back(s);
    if (auto advice = advisor_.step(s)) r_.advice.push_back(*advice);
  }
  void operator()(const EpochRecord& e) { r_.epochs.push_back(e); }
  void operator()(const ValidRecord& v) { r_.valid.push_back(v); }
  void operator()(const RanksRecord& r) {
    r_.ranks_record = r;
    advisor_.ranks(r);
  }
  void operator()(const CheckpointRecord& c) {
    // Older versions logged a checkpoint again when they passed it after a resume, without writing it.
    if (saved_.insert(c.step).second) r_.checkpoints.push_back(c);
  }
  void operator()(const EndRecord& e) {
    r_.step_s = e.step_s.value_or(StepStats());
    r_.peak_rss_bytes = e.peak_rss_bytes.value_or(0);
    r_.unattributed_share = e.unattributed_share.value_or(0);
    r_.ops = e.ops.value_or(std::vector<OpRecord>());
  }
  void operator()(const auto&) {}  // not needed here

 private:
  RunRecord& r_;
  Advisor advisor_{{}};
  std::set<int64_t> saved_;  // steps
};

// run_end's statistics exclude 2 warm-up steps. Step events replace them if the sweep asks for another
// warm-up or the run did not finish, provided that all are present.
void measure_steps(RunRecord& r) {
  constexpr int64_t kEngineWarmup = 2;
  if (r.steps.empty()) return;
  r.final_loss = or_nan(r.steps.back().loss);
  double wait = 0;
  for (const StepRecord& s : r.steps) {
    r.peak_rss_bytes = std::max(r.peak_rss_bytes, s.rss_bytes.value_or(0));
    if (s.step > r.warmup && s.seconds > 0) wait += s.data_wait_s.value_or(0);
  }
  const std::vector<double> seconds = r.measured_steps();
  if (seconds.empty()) return;
  const auto count = static_cast<int64_t>(seconds.size());
  r.data_wait_s = wait / static_cast<double>(count);
  if (r.step_s.median > 0 && (r.warmup == kEngineWarmup || count != r.steps.back().step - r.warmup)) {
    r.step_s.count = std::max(r.step_s.count, count);  // older results lack the count
    return;
  }
  r.step_s = step_stats(seconds);
}

void follow(const Record& r, ResultTail& t) {
  t.last_event = event_of(r);
  if (std::holds_alternative<StartRecord>(r))
    t = {.started = true, .starts = t.starts + 1, .last_event = t.last_event};
  if (const auto* step = std::get_if<StepRecord>(&r)) t.last_step = step->step;
  if (const auto* end = std::get_if<EndRecord>(&r)) {
    t.ended = true;
    t.status = end->status;
    t.failure = end->failure.value_or("");
    t.message = end->message.value_or("");
    if (end->op) t.last_op = *end->op;
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
  const bool disturbed = r.contention.scattered || r.contention.busy;
  const double own =
      disturbed ? contended_error(r.step_s) : own_error(r.measured_steps(), r.step_s, statistic);
  return std::hypot(own, std::log(r.contention.slower));
}

RunToRun run_to_run_of(const std::vector<const RunRecord*>& runs, Statistic statistic) {
  std::map<std::string, std::vector<double>> groups;  // by specification and engine
  for (const RunRecord* r : runs)
    if (r->run_class == RunClass::ok && !r->contention.marked() && r->step_s.of(statistic) > 0)
      groups[experiment_of(r->spec) + text_in(r->provenance, "source")].push_back(
          std::log(r->step_s.of(statistic)));
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
  if (fs::exists(result_jsonl))
    for_each_record(result_jsonl, nullptr, [&](const Record& r) { follow(r, t); });
  return t;
}

RunSpec spec_as_run(const RunRecord& r) {
  RunSpec s = r.spec;
  if (s.run.device == RunDevice::automatic) s.run.device = r.on_gpu ? RunDevice::cuda : RunDevice::cpu;
  return s;
}

RunRecord load_run(const fs::path& dir, std::vector<std::string>* problems) {
  RunRecord r;
  r.dir = dir;
  r.id = fs::absolute(dir / ".").lexically_normal().parent_path().filename().string();
  Gathered gathered(r);
  if (const fs::path results = dir / "result.jsonl"; fs::exists(results))
    for_each_record(results, problems, [&](const Record& record) {
      follow(record, gathered.tail);
      std::visit(gathered, record);
    });
  const ResultTail& tail = gathered.tail;

  const json trial = read_json(dir / "trial.json", problems);
  const json status = read_json(dir / "status.json", problems);
  json spec = trial.is_object() ? object_in(trial, "spec") : read_json(dir / "spec.json", problems);
  if (!spec.is_object() || spec.empty()) spec = gathered.started_spec;
  if (spec.is_object() && !spec.empty())
    take_spec(spec, (dir / "spec.json").string(), r, problems);
  else
    report(problems, dir.string() + ": no specification is left (trial.json, spec.json, run_start)");
  if (r.ranks == 0) r.ranks = r.spec.layout.world();
  if (r.ranks_on_host == 0) r.ranks_on_host = r.ranks;  // older results: one host
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
    } catch (const std::exception& e) {  // an unreadable trial does not hide the others
      report(problems, folder.string() + ": " + e.what());
    }
  }
  mark_contended(out);
  return out;
}

}  // namespace isobar::records
