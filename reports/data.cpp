#include "reports/data.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>

#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string plain(const json& v) {
  return v.is_string() ? v.get<std::string>()
                       : v.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string last_word(const std::string& key) {
  return key.substr(key.find_last_of('.') + 1);
}

// All settings of a run under their YAML names, but for those that never change what it measures.
std::map<std::string, std::string> settings_of(const RunRecord& r) {
  std::map<std::string, std::string> out;
  const json spec = to_json(r.spec);
  for (const auto& [section, values] : spec.items()) {
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items())
      out[std::string(section).append(".").append(key)] = plain(value);
  }
  out.erase("run.out");
  out.erase("train.seed");
  return out;
}

// Labels begin with what readers ask for first, and with what is cut off last on a narrow screen.
size_t weight_of(const std::string& key) {
  constexpr std::array<const char*, 7> kOrder = {"gpus",   "layout.", "policy.", "net.",
                                                 "train.", "data.",   "run."};
  size_t i = 0;
  while (i < kOrder.size() && !key.starts_with(kOrder[i])) ++i;
  return i;
}

// Sweeps say themselves what they vary; of other runs it is what differs between their specifications.
void name_runs(ReportData& d) {
  const bool swept = std::all_of(d.runs.begin(), d.runs.end(), [](const ReportRun& r) {
    return r.run.axes.is_object() && !r.run.axes.empty();
  });
  std::map<std::string, std::set<std::string>> values;
  std::vector<std::map<std::string, std::string>> all;
  for (const ReportRun& r : d.runs) {
    if (swept) {
      all.emplace_back();
      for (const auto& [key, value] : r.run.axes.items()) all.back()[key] = plain(value);
    } else {
      all.push_back(settings_of(r.run));
    }
  }
  for (const auto& settings : all)
    for (const auto& [key, value] : settings) values[key].insert(value);
  for (const auto& [key, seen] : values) {
    const bool everywhere =
        std::all_of(all.begin(), all.end(), [&k = key](const auto& s) { return s.count(k) > 0; });
    if (seen.size() > 1 || !everywhere) d.varied.push_back(key);
  }
  std::stable_sort(d.varied.begin(), d.varied.end(),
                   [](const std::string& a, const std::string& b) { return weight_of(a) < weight_of(b); });
  std::map<std::string, int> short_names, uses;
  for (const std::string& key : d.varied) ++short_names[last_word(key)];
  for (size_t i = 0; i < d.runs.size(); ++i) {
    ReportRun& r = d.runs[i];
    for (const std::string& key : d.varied) {
      const auto it = all[i].find(key);
      if (it == all[i].end()) continue;
      r.axes[key] = it->second;
      r.label += (r.label.empty() ? "" : " ") + (short_names[last_word(key)] > 1 ? key : last_word(key)) +
                 "=" + it->second;
    }
    if (r.label.empty()) r.label = r.run.id;
    ++uses[r.label];
  }
  std::map<std::string, int> seen;  // repetitions get a number, so that each label is one run
  for (ReportRun& r : d.runs)
    if (uses[r.label] > 1) r.label += " #" + std::to_string(++seen[r.label]);
}

double number_at(const json& row, const char* key, const std::string& file, const std::string& where) {
  const auto it = row.find(key);
  if (it == row.end() || !it->is_number())
    throw ConfigError(file, where + "." + key, "is not a number", "write the file anew with isobar fit");
  return it->get<double>();
}

}  // namespace

std::vector<const ReportRun*> ReportData::ok() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun& r : runs)
    if (r.run.run_class == RunClass::ok && r.measured() > 0) out.push_back(&r);
  return out;
}

std::vector<const ReportRun*> ReportData::failed() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun& r : runs)
    if (r.run.run_class != RunClass::ok || !(r.measured() > 0)) out.push_back(&r);
  return out;
}

std::vector<const ReportRun*> ReportData::predicted() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun* r : ok())
    if (r->prediction) out.push_back(r);
  return out;
}

const ReportRun* ReportData::best() const {
  const auto all = ok();
  const auto it = std::max_element(all.begin(), all.end(), [](const ReportRun* a, const ReportRun* b) {
    return a->run.samples_per_s < b->run.samples_per_s;
  });
  return it == all.end() ? nullptr : *it;
}

Score ReportData::score(bool in_fit) const {
  Score s;
  std::vector<double> errors;
  for (const ReportRun* r : predicted()) {
    if (r->prediction->in_fit != in_fit) continue;
    errors.push_back(std::abs(r->error()));
    s.bias += r->error();
    s.coverage += r->inside() ? 1 : 0;
  }
  s.runs = errors.size();
  if (errors.empty()) return s;
  std::sort(errors.begin(), errors.end());
  const auto n = static_cast<double>(errors.size());
  s.median_error = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
  for (double e : errors) s.mean_error += e / n;
  s.bias /= n;
  s.coverage /= n;
  return s;
}

ReportData collect(const fs::path& dir, const CollectOptions& options) {
  ReportData d;
  d.dir = dir;
  for (RunRecord& r : load_runs(dir, &d.problems)) {
    d.runs.emplace_back();
    d.runs.back().run = std::move(r);
  }
  if (d.runs.empty())
    throw ConfigError(dir.string(), "", "holds no runs", "run `isobar sweep` or `isobar train` first");
  name_runs(d);
  if (!options.machine.empty()) {
    predict_runs(d, options.machine);
  } else if (fs::exists(dir / "holdout.json")) {
    const auto predictions = read_holdout(dir / "holdout.json", &d.machine);
    for (ReportRun& r : d.runs)
      if (const auto it = predictions.find(r.run.id); it != predictions.end()) r.prediction = it->second;
  }
  return d;
}

std::map<std::string, RunPrediction> read_holdout(const fs::path& file, std::string* machine) {
  const json j = json::parse(read_file(file), nullptr, false);
  if (!j.is_object() || !j.contains("runs") || !j["runs"].is_array())
    throw ConfigError(file.string(), "runs", "is not a list of predicted runs",
                      "write the file anew with isobar fit");
  if (machine) *machine = j.contains("machine") ? plain(j["machine"]) : "fitted";
  std::map<std::string, RunPrediction> out;
  for (size_t i = 0; i < j["runs"].size(); ++i) {
    const json& row = j["runs"][i];
    const std::string where = "runs[" + std::to_string(i) + "]";
    if (!row.is_object() || !row.contains("id") || !row["id"].is_string())
      throw ConfigError(file.string(), where + ".id", "is missing", "write the file anew with isobar fit");
    RunPrediction p;
    p.step_s = number_at(row, "predicted_s", file.string(), where);
    p.lower = number_at(row, "lo_s", file.string(), where);
    p.upper = number_at(row, "hi_s", file.string(), where);
    p.in_fit = row.value("in_fit", json(false)) == json(true);
    if (const auto terms = row.find("terms"); terms != row.end() && terms->is_object())
      for (const auto& [name, seconds] : terms->items())
        if (seconds.is_number()) p.terms.emplace_back(name, seconds.get<double>());
    out[row["id"].get<std::string>()] = std::move(p);
  }
  return out;
}

std::string group_of_path(const std::string& path) {
  const std::string word = "block";
  std::string out;
  for (size_t i = 0; i < path.size();) {
    size_t j = i + word.size();
    const bool begins = (i == 0 || path[i - 1] == '/') && path.compare(i, word.size(), word) == 0;
    while (begins && j < path.size() && std::isdigit(static_cast<unsigned char>(path[j]))) ++j;
    if (begins && j > i + word.size()) {
      out += word + "*";
      i = j;
    } else {
      out += path[i++];
    }
  }
  return out;
}

}  // namespace isobar
