#include "reports/watch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/sweep/trials.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "reports/tables.h"

namespace isobar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kRecent = 8;
constexpr size_t kPace = 20;  // ends of trials that set the pace

fs::file_time_type time_of(const fs::path& file) {
  std::error_code missing;
  const auto t = fs::last_write_time(file, missing);
  return missing ? fs::file_time_type{} : t;
}

double seconds(fs::file_time_type::duration d) {
  return std::chrono::duration<double>(d).count();
}

json parsed(const fs::path& file) {
  std::ifstream in(file);
  return json::parse(in, nullptr, false);  // discarded where there is none, or while it is being written
}

std::string word(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

double number(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number() ? it->get<double>() : 0;
}

// The last whole lines of a file that another process is writing, newest first.
std::vector<std::string> last_lines(const fs::path& file, size_t bytes) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<size_t>(in.tellg());
  const size_t from = size > bytes ? size - bytes : 0;
  in.seekg(static_cast<std::streamoff>(from));
  std::string text(size - from, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::vector<std::string> out;
  size_t end = text.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const size_t begin = text.rfind('\n', end - 1);
    if (begin == std::string::npos && from > 0) break;  // its beginning was not read
    const size_t at = begin == std::string::npos ? 0 : begin + 1;
    out.push_back(text.substr(at, end - at));
    end = begin;
  }
  return out;
}

std::string duration(double s) {
  char text[48];
  if (s < 90)
    std::snprintf(text, sizeof text, "%.0f s", s);
  else if (s < 5400)
    std::snprintf(text, sizeof text, "%.0f min", s / 60);
  else
    std::snprintf(text, sizeof text, "%.0f h %02.0f min", std::floor(s / 3600),
                  std::floor(std::fmod(s, 3600) / 60));
  return text;
}

// Columns, not bytes: UTF-8's continuation bytes take none.
std::string fitted(const std::string& line, size_t width) {
  size_t columns = 0, i = 0;
  for (; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0) == 0x80) continue;
    if (columns++ == width) break;
  }
  return line.substr(0, i);
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
  const json j = parsed(file);
  if (!j.is_object() || !j.contains("trials") || !j["trials"].is_array())
    throw ConfigError(file.string(), "trials", "is not there",
                      "name the --results directory of an `isobar sweep`");
  matrix_time_ = time;
  for (const json& t : j["trials"]) {
    const std::string id = word(t, "id");
    if (id.empty() || index_.count(id)) continue;
    index_[id] = state_.trials.size();
    WatchedTrial& trial = state_.trials.emplace_back();
    trial.id = id;
    if (const auto axes = t.find("axes"); axes != t.end() && axes->is_object())
      for (const auto& [key, value] : axes->items())
        trial.label += (trial.label.empty() ? "" : " ") + short_key(key) + "=" + show_value(value);
    if (const double rep = number(t, "repetition"); rep > 0)
      trial.label += " #" + std::to_string(int(rep) + 1);
  }
  status_time_.resize(state_.trials.size());
}

void SweepWatch::read_trial(size_t index) {
  WatchedTrial& t = state_.trials[index];
  const fs::path dir = state_.dir / "trials" / t.id;
  const auto time = time_of(dir / "status.json");
  if (time != fs::file_time_type{}) {
    if (time == status_time_[index]) return;
    const json status = parsed(dir / "status.json");
    if (!status.is_object()) return;
    status_time_[index] = time;
    const std::string name = word(status, "class");
    t.state = name.empty() ? word(status, "state") : name;
    t.final = status.value("final", json(!name.empty())) == json(true);
    t.message = word(status, "message");
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
  if (!t.final) t.state = "running";
  // The last line of a finished run holds all its ops, so it may be long.
  for (const std::string& line : last_lines(results, t.final ? 1 << 20 : 1 << 14)) {
    const json e = json::parse(line, nullptr, false);
    if (!e.is_object()) continue;
    if (t.samples_per_s == 0 || !t.final) t.samples_per_s = number(e, "samples_per_s");
    if (e.value("event", "") == "step") t.step = static_cast<int64_t>(number(e, "step"));
    if (t.samples_per_s > 0) break;
  }
  if (t.steps == 0) {
    const json trial = parsed(dir / "trial.json");
    if (trial.is_object() && trial.contains("spec") && trial["spec"].is_object() &&
        trial["spec"].contains("train"))
      t.steps = static_cast<int64_t>(number(trial["spec"]["train"], "steps"));
  }
}

void SweepWatch::refresh() {
  read_matrix();
  for (size_t i = 0; i < state_.trials.size(); ++i)
    if (!state_.trials[i].final) read_trial(i);
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
    left = "about " + duration(s.left_s()) + " left";
  line(bar(s, std::min<size_t>(40, o.width / 2)) + " " + left);
  std::string counts;
  for (const auto& [state, n] : s.counts)
    counts += (counts.empty() ? "" : "   ") + std::to_string(n) + " " + state;
  line(counts);
  if (const WatchedTrial* best = s.fastest())
    line("fastest so far: " + significant(best->samples_per_s, 4).text + " samples/s  " + best->label);
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
    const size_t room = o.rows > lines.size() + 2 ? std::max<size_t>(2, (o.rows - lines.size()) / 2) : 2;
    for (size_t i = 0; i < std::min(room, of_it.size()); ++i) line("  " + text(*of_it[i]));
    if (of_it.size() > room) line("  and " + std::to_string(of_it.size() - room) + " more");
  };
  block("Now", running, [](const WatchedTrial& t) {
    std::string text = t.state + "  " + t.label;
    if (t.step > 0)
      text += "  step " + std::to_string(t.step) + (t.steps > 0 ? "/" + std::to_string(t.steps) : "") + ", " +
              significant(t.samples_per_s, 4).text + " samples/s";
    if (t.age_s > 20) text += "  (silent for " + duration(t.age_s) + ")";
    return text;
  });
  block("Failed", failed, [](const WatchedTrial& t) { return t.state + "  " + t.label + "  " + t.message; });
  std::vector<const WatchedTrial*> recent;
  for (const size_t i : s.finished) recent.push_back(&s.trials[i]);
  block("Last", recent, [](const WatchedTrial& t) {
    return t.state + "  " + t.label +
           (t.samples_per_s > 0 ? "  " + significant(t.samples_per_s, 4).text + " samples/s"
                                : std::string()) +
           (t.wall_s > 0 ? "  in " + duration(t.wall_s) : std::string());
  });
  if (lines.size() > o.rows) lines.resize(o.rows);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool head = i == 0 || lines[i] == "Now" || lines[i] == "Failed" || lines[i] == "Last";
    out += o.colour && head ? "\x1b[1m" + lines[i] + "\x1b[0m\n" : lines[i] + "\n";
  }
  return out;
}

}  // namespace isobar
