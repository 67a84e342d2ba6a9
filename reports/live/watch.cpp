#include "reports/live/watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "model/records/files/result_file.h"
#include "model/records/trial_id.h"
#include "reports/style/terminal.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kRecent = 8;
constexpr size_t kPace = 20;  // most recent trials that determine the pace

fs::file_time_type time_of(const fs::path& file) {
  std::error_code missing;
  const auto t = fs::last_write_time(file, missing);
  return missing ? fs::file_time_type{} : t;
}

double seconds(fs::file_time_type::duration d) {
  return std::chrono::duration<double>(d).count();
}

double number(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : 0;
}

constexpr size_t kLeastLabel = 16;  // columns

// Shortens the label first, so that the trial's state stays visible.
std::string around(const std::string& before, const std::string& label, const std::string& after,
                   size_t width) {
  const size_t taken = columns_of(before) + columns_of(after) + 2;
  return before + "  " + fitted(label, width > taken + kLeastLabel ? width - taken : kLeastLabel) + after;
}

std::string bar(const WatchState& s, size_t width) {
  const size_t total = std::max<size_t>(1, s.trials.size());
  const size_t full = width * s.done / total;
  std::string out;
  for (size_t i = 0; i < width; ++i) out += i < full ? "\u2588" : "\u2591";
  return out;
}

}  // namespace

const WatchedTrial* WatchState::fastest() const {
  const WatchedTrial* best = nullptr;
  for (const WatchedTrial& t : trials)
    if (t.state == "ok" && t.samples_per_s > (best ? best->samples_per_s : 0)) best = &t;
  return best;
}

SweepWatch::SweepWatch(fs::path dir) {
  state_.dir = std::move(dir);
  read_matrix();
}

void SweepWatch::read_matrix() {
  const fs::path file = state_.dir / "sweep.json";
  const auto time = time_of(file);
  if (time == matrix_time_ && time != fs::file_time_type{}) return;
  const json j = json_if_there(file);
  if (!j.is_object() || !j.contains("trials") || !j["trials"].is_array())
    throw ConfigError(file.string(), "trials", "is not there",
                      "name the --results directory of an `isobar sweep`");
  matrix_time_ = time;
  for (const json& t : j["trials"]) {
    if (!t.is_object()) continue;
    const std::string id = text_in(t, "id");
    if (id.empty()) continue;
    records::require_trial_id(id, file.string());
    const auto [at, fresh] = index_.try_emplace(id, state_.trials.size());
    WatchedTrial& trial = fresh ? state_.trials.emplace_back() : state_.trials[at->second];
    trial.id = id;
    const std::string name = text_in(t, "name");  // adding a repetition may rename the others
    trial.label = name.empty() ? id : name;
    trial.ranks = static_cast<int64_t>(number(t, "ranks"));
  }
  status_time_.resize(state_.trials.size());
}

void SweepWatch::read_trial(size_t index) {
  WatchedTrial& t = state_.trials[index];
  const fs::path dir = state_.dir / "trials" / t.id;
  const auto time = time_of(dir / "status.json");
  if (time != fs::file_time_type{}) {
    if (time == status_time_[index]) return;
    const json status = json_if_there(dir / "status.json");
    if (!status.is_object()) return;
    status_time_[index] = time;
    const std::string name = text_in(status, "class");
    t.state = name.empty() ? text_in(status, "state") : name;
    t.final = status.value("final", json(!name.empty())) == json(true);
    t.message = text_in(status, "message");
    t.wall_s = number(status, "wall_s");
    if (t.final) ends_.emplace_back(time, index);
  }
  const fs::path results = dir / "result.jsonl";
  const auto grown = time_of(results);
  if (grown == fs::file_time_type{}) {
    if (!t.final && fs::exists(dir / "trial.json")) t.state = "running";
    return;
  }
  t.age_s = seconds(fs::file_time_type::clock::now() - grown);
  if (t.final) {
    advised_.erase(t.id);
  } else {
    t.state = "running";
    advise(t, results);
  }
  // The last line of a finished run holds all its ops, so it can be long.
  records::for_each_from_end(results, t.final ? 1 << 20 : 1 << 14, [&t](const records::Record& r) {
    const auto* end = std::get_if<records::EndRecord>(&r);
    const auto* step = std::get_if<records::StepRecord>(&r);
    if (!t.final || end || t.samples_per_s == 0)
      t.samples_per_s = end ? end->samples_per_s.value_or(0) : step ? step->samples_per_s : 0;
    if (end) t.step_s = end->step_s.value_or(t.step_s);
    if (step) t.step = step->step;
    return t.samples_per_s <= 0;
  });
  if (t.steps == 0) {
    const json trial = json_if_there(dir / "trial.json");
    if (trial.is_object() && trial.contains("spec") && trial["spec"].is_object() &&
        trial["spec"].contains("train"))
      t.steps = static_cast<int64_t>(number(trial["spec"]["train"], "steps"));
  }
}

void SweepWatch::advise(WatchedTrial& t, const fs::path& results) {
  Advised& a = advised_[t.id];
  a.read = records::for_each_new(results, a.read, [&](const records::Record& r) {
    if (const auto* start = std::get_if<records::StartRecord>(&r)) a.advisor = records::advisor_of(*start);
    if (const auto* step = std::get_if<records::StepRecord>(&r)) a.advisor.step(*step);
    if (const auto* ranks = std::get_if<records::RanksRecord>(&r)) a.advisor.ranks(*ranks);
  });
  t.advice = a.advisor.given().empty() ? "" : a.advisor.given().back();
}

void SweepWatch::refresh() {
  read_matrix();
  for (size_t i = 0; i < state_.trials.size(); ++i)
    if (!state_.trials[i].final) read_trial(i);
  std::vector<records::Signs> scatter;
  for (const WatchedTrial& t : state_.trials) {
    const bool timed = t.final && (t.state == "ok" || t.state == "noisy") && t.step_s.median > 0;
    scatter.push_back({t.ranks, timed ? t.step_s.spread() : -1});
  }
  const std::vector<records::Contention> marks = records::contention_of(scatter);
  for (size_t i = 0; i < marks.size(); ++i) state_.trials[i].contention = marks[i];
  state_.counts.clear();
  state_.done = 0;
  for (const WatchedTrial& t : state_.trials) {
    ++state_.counts[t.state];
    state_.done += t.final ? 1 : 0;
  }
  std::stable_sort(ends_.begin(), ends_.end());
  while (ends_.size() > kPace) ends_.pop_front();
  state_.finished.clear();
  for (auto it = ends_.rbegin(); it != ends_.rend() && state_.finished.size() < kRecent; ++it)
    state_.finished.push_back(it->second);
  state_.seconds_a_trial = ends_.size() > 1 ? seconds(ends_.back().first - ends_.front().first) /
                                                  static_cast<double>(ends_.size() - 1)
                                            : 0;
}

std::string frame(const WatchState& s, const FrameOptions& o) {
  std::vector<std::string> lines;
  const auto line = [&](const std::string& text) { lines.push_back(fitted(printable(text), o.width)); };
  const std::string of = std::to_string(s.done) + " of " + std::to_string(s.trials.size()) + " trials";
  line(s.dir.string() + "  " + of);
  std::string left;
  if (s.done == s.trials.size())
    left = "all done";
  else if (s.seconds_a_trial > 0)
    left = "about " + duration_words(s.left_s()) + " left";
  line(bar(s, std::min<size_t>(40, o.width / 2)) + " " + left);
  std::string counts;
  for (const auto& [state, n] : s.counts)
    counts += (counts.empty() ? "" : "   ") + std::to_string(n) + " " + state;
  const auto contended = std::count_if(s.trials.begin(), s.trials.end(),
                                       [](const WatchedTrial& t) { return t.contention.marked(); });
  if (contended > 0) counts += "   (" + std::to_string(contended) + " contended)";
  line(counts);
  if (const WatchedTrial* best = s.fastest())
    line(around("fastest so far: " + significant(best->samples_per_s, 4).text + " samples/s (" +
                    title_of(kStatistic) + ")",
                best->label, "", o.width));
  std::vector<const WatchedTrial*> running, failed;
  for (const WatchedTrial& t : s.trials) {
    if (!t.final && t.state != "planned") running.push_back(&t);
    if (t.final && t.state != "ok") failed.push_back(&t);
  }
  const auto block = [&](const std::string& title, const std::vector<const WatchedTrial*>& of_it,
                         auto&& text) {
    if (of_it.empty()) return;
    line("");
    line(title);
    const size_t most = o.rows > lines.size() + 2 ? std::max<size_t>(2, (o.rows - lines.size()) / 2) : 2;
    for (size_t i = 0; i < std::min(most, of_it.size()); ++i) line("  " + text(*of_it[i]));
    if (of_it.size() > most) line("  and " + std::to_string(of_it.size() - most) + " more");
  };
  const size_t room = o.width - std::min<size_t>(o.width, 2);  // lines of a block are indented by 2
  block("Now", running, [room](const WatchedTrial& t) {
    std::string text;
    if (t.step > 0)
      text += "  step " + std::to_string(t.step) + (t.steps > 0 ? "/" + std::to_string(t.steps) : "") + ", " +
              significant(t.samples_per_s, 4).text + " samples/s";
    if (t.age_s > 20) text += "  (silent for " + duration_words(t.age_s) + ")";
    if (!t.advice.empty()) text += "  " + t.advice;
    return around(t.state, t.label, text, room);
  });
  block("Failed", failed,
        [room](const WatchedTrial& t) { return around(t.state, t.label, "  " + t.message, room); });
  std::vector<const WatchedTrial*> recent;
  for (const size_t i : s.finished) recent.push_back(&s.trials[i]);
  block("Last", recent, [room](const WatchedTrial& t) {
    std::string text;
    if (t.samples_per_s > 0) text += "  " + significant(t.samples_per_s, 4).text + " samples/s";
    if (t.wall_s > 0) text += "  in " + duration_words(t.wall_s);
    if (t.contention.marked()) text += "  contended";
    return around(t.state, t.label, text, room);
  });
  if (lines.size() > o.rows) lines.resize(o.rows);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool head = i == 0 || lines[i] == "Now" || lines[i] == "Failed" || lines[i] == "Last";
    out += o.colour && head ? "\x1b[1m" + lines[i] + "\x1b[0m\n" : lines[i] + "\n";
  }
  return out;
}

}  // namespace isobar::report
