#include "bench/sweep/results/trialdir.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <vector>

#include "bench/sweep/command_words.h"
#include "bench/sweep/results/resultsdir.h"
#include "model/base/names/checkpoint_names.h"
#include "model/base/system/files.h"
#include "model/base/system/shared_files.h"
#include "model/base/system/signal_name.h"
#include "model/base/text/json.h"
#include "model/records/results.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMostOfAStart = 200;  // bytes: four numbers

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t);
  return text;
}

std::string host() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

TrialDir::TrialDir(const fs::path& results, const Trial& trial, int64_t warmup, int64_t max_attempts)
    : trial_(trial),
      warmup_(warmup),
      max_attempts_(max_attempts),
      dir_(fs::absolute(results) / "trials" / trial.id) {}

std::optional<records::RunClass> TrialDir::verdict() const {
  if (!fs::exists(dir_ / "status.json")) return std::nullopt;
  const json j = isobar::read_json(dir_ / "status.json");
  if (!j.is_object() || !j.contains("class") || !j["class"].is_string()) return std::nullopt;
  return records::run_class(j["class"].get<std::string>());
}

bool TrialDir::finished() const {
  const auto own = verdict();
  if (!own) return false;
  const json j = isobar::read_json(dir_ / "status.json");
  return j.is_object() && j.value("final", json(records::is_final(*own))) == true;
}

TrialDir::Start TrialDir::start() const {
  Start s;
  std::istringstream text(read_end(dir_ / "attempt", kMostOfAStart));
  if (!(text >> s.number) || s.number < 0) return {};
  if (!(text >> s.from >> s.tries >> s.before) || s.from < 0 || s.tries < 0 || s.before < 0)
    return {.number = s.number, .tries = s.number};  // of a version in which none went on
  // That start went on from an earlier one, and whatever it left is further than it began.
  if (s.from > 0 && was_set_aside(dir_, s.from)) s.from = 0;
  return s;
}

int64_t TrialDir::attempt() const {
  return start().number;
}

int64_t TrialDir::saved_step() const {
  // A command's checkpoints have no step in their names: its steps so far stand for them.
  if (!trial_.spec.run.command.empty())
    return checkpoint_of_command(trial_.spec, dir_)
               ? std::max<int64_t>(0, records::read_tail(dir_ / "result.jsonl").last_step)
               : 0;
  const std::vector<fs::path> all = checkpoints_of(dir_);
  return all.empty() ? 0 : step_named(all.back());
}

records::ResultTail TrialDir::tail() const {
  records::ResultTail t = records::read_tail(dir_ / "result.jsonl");
  return t.starts > start().before ? t : records::ResultTail{};
}

bool TrialDir::adopt() {
  const auto v = verdict_from_results(tail());
  if (!v) return false;
  write_status(*v, nullptr, "");
  return true;
}

bool TrialDir::prepare(bool go_on) {
  fs::create_directories(dir_);
  before_ = read_end(dir_ / "attempt", kMostOfAStart);
  const Start last = start();
  const int64_t before = last.number, from = go_on ? saved_step() : 0;
  if (before > 0) {
    // A kill between these renames is harmless: `attempt` still holds the number, so the next sweep moves the
    // rest to the same place. The verdict goes first, because without it the remainder is an unfinished
    // trial.
    const fs::path old = dir_ / ("attempt-" + std::to_string(before));
    fs::create_directories(old);
    std::vector<fs::path> files = {"status.json"};
    if (from > 0) files.insert(files.end(), {"out", "err"});
    for (const auto& entry : fs::directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      if (from == 0 && !name.starts_with("attempt") && name != "status.json" && name != "claim")
        files.emplace_back(name);
    }
    for (const fs::path& name : files)
      if (fs::exists(fs::symlink_status(dir_ / name))) fs::rename(dir_ / name, old / name);
  }
  // Written atomically, so that an interrupted start is counted once.
  std::ostringstream text;
  text << before + 1 << ' ' << from << ' ' << (from > last.from ? 1 : last.tries + 1) << ' '
       << (from > 0 ? records::read_tail(dir_ / "result.jsonl").starts : 0) << '\n';
  write_atomically(dir_ / "attempt", text.str());
  const json spec = to_json(trial_.spec);
  const json trial = {{"schema", 1},
                      {"id", trial_.id},
                      {"repetition", trial_.repetition},
                      {"ranks", trial_.ranks()},
                      {"repeats", trial_.repeats},
                      {"warmup", warmup_},
                      {"axes", object_of(trial_.axes)},
                      {"spec", spec}};
  write_atomically(dir_ / "trial.json", json_text(trial, 1) + "\n");
  // JSON is YAML too; dumping it keeps every value's type beyond doubt.
  write_atomically(dir_ / "config.yaml", json_text(spec, 1) + "\n");
  return from > 0;
}

void TrialDir::take_back() {
  for (const char* name : {"trial.json", "config.yaml"}) fs::remove(dir_ / name);
  const fs::path old = dir_ / ("attempt-" + std::to_string(start().number - 1));
  std::vector<fs::path> files;
  if (fs::exists(old))
    for (const auto& entry : fs::directory_iterator(old)) files.push_back(entry.path());
  // The verdict comes last: without it a kill in between leaves an unfinished trial, not one without files.
  std::stable_partition(files.begin(), files.end(),
                        [](const fs::path& file) { return file.filename() != "status.json"; });
  for (const fs::path& file : files) fs::rename(file, dir_ / file.filename());
  fs::remove(old);
  if (before_.empty())
    fs::remove(dir_ / "attempt");
  else
    write_atomically(dir_ / "attempt", before_);
}

Verdict TrialDir::weigh(const ProcessOutcome& outcome) const {
  return classify(outcome, tail(), read_end(dir_ / "err", 4096));
}

Verdict TrialDir::judge(const ProcessOutcome& outcome, const Plausibility& plausibility,
                        const std::string& job) {
  Verdict v = weigh(outcome);
  if (v.run_class == records::RunClass::ok &&
      (plausibility.least_step_s > 0 || plausibility.noise_limit > 0)) {
    std::vector<std::string> unheard;  // reported when results are read
    v = doubted(v, records::load_run(dir_, &unheard).step_s, plausibility);
  }
  write_status(v, &outcome, job);
  return v;
}

void TrialDir::settle(const Verdict& v, const std::string& job) {
  write_status(v, nullptr, job);
}

void TrialDir::write_status(const Verdict& v, const ProcessOutcome* outcome, const std::string& job) const {
  const records::ResultTail tail = this->tail();
  // A user's stop never uses up an attempt; nor does any failure after progress.
  const bool further = trial_.chained() && came_further();
  // A crash or hang after progress is resumed too; the next start shows whether it gets past that point.
  const bool by_itself = v.run_class == records::RunClass::crash || v.run_class == records::RunClass::hang;
  const bool again = v.retry || (further && by_itself);
  const bool worn_out = max_attempts_ > 0 && start().tries >= max_attempts_ && !further &&
                        (again || v.run_class != records::RunClass::interrupted);
  const bool final = worn_out || (records::is_final(v.run_class) && !again);
  const std::string goes_on = !final && trial_.chained() && saved_step() > 0
                                  ? "; goes on from step " + std::to_string(saved_step())
                                  : "";
  json j = {{"schema", 1},
            {"id", trial_.id},
            {"class", records::name_of(v.run_class)},
            {"final", final},
            {"message", v.message + goes_on},
            {"attempt", std::max<int64_t>(1, attempt())},
            {"came_further", further},
            {"adopted", outcome == nullptr},
            {"last_event", tail.last_event},
            {"last_step", tail.last_step},
            {"host", host()},
            {"time_utc", utc_now()}};
  if (!job.empty()) j["job"] = job;
  if (outcome) {
    const bool by_signal = outcome->end == ProcessEnd::signalled || outcome->code < 0;
    if (by_signal) j["signal"] = signal_name(std::abs(outcome->code));
    if (outcome->end == ProcessEnd::exited) j["exit_code"] = outcome->code;
    j["wall_s"] = outcome->wall_s;
    j["max_rss_bytes"] = outcome->max_rss_bytes;
    if (outcome->peak_private_bytes) j["peak_private_bytes"] = outcome->peak_private_bytes;
    j["strays_killed"] = outcome->strays;
  }
  // Program output may have any encoding.
  write_atomically(dir_ / "status.json", j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace isobar::sweep
