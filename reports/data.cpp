#include "reports/data.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"

namespace isobar::report {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string plain(const json& v) {
  return v.is_string() ? v.get<std::string>()
                       : v.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Shortest distinct suffixes of the paths: demo and old/demo become "demo" and "old/demo".
std::vector<std::string> names_of(const std::vector<fs::path>& dirs) {
  std::vector<std::string> out;
  for (size_t parts = 1; parts < 8; ++parts) {
    out.clear();
    for (const fs::path& dir : dirs) {
      fs::path rest = (fs::absolute(dir) / ".").lexically_normal().parent_path(), name;
      for (size_t i = 0; i < parts && rest.has_relative_path(); ++i, rest = rest.parent_path())
        name = name.empty() ? rest.filename() : rest.filename() / name;
      out.push_back(name.string());
    }
    if (std::set<std::string>(out.begin(), out.end()).size() == dirs.size()) return out;
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] += " (" + std::to_string(i + 1) + ")";
  return out;
}

double number_at(const json& row, const char* key, const std::string& file, const std::string& where) {
  const auto it = row.find(key);
  if (it == row.end() || !it->is_number())
    throw ConfigError(file, where + "." + key, "is not a number", "write the file anew with isobar fit");
  return it->get<double>();
}

// Applies one statistic to every run, and estimates the error of each run's value.
void measure(ReportData& d, Statistic statistic) {
  d.statistic = statistic;
  std::vector<const records::RunRecord*> runs;
  for (ReportRun& r : d.runs) {
    r.statistic = statistic;
    runs.push_back(&r.run);
  }
  d.between = records::run_to_run_of(runs, statistic);
  for (ReportRun& r : d.runs)
    r.measured_error = std::hypot(records::step_error(r.run, statistic), d.between.sigma);
}

// Stored predictions of older versions use earlier names of terms.
std::string current_term(const std::string& stored) {
  static const std::map<std::string, std::string> renamed = {
      {"row arithmetic", "vector arithmetic"},
      {"bias sums", "reductions"},
      {"communication, not hidden", "exposed communication"},
      {"tensor parallelism, not hidden", "exposed TP communication"},
      {"context parallelism, not hidden", "exposed CP communication"},
      {"data parallelism, not hidden", "exposed DP communication"},
      {"transfers between stages", "pipeline transfers"}};
  const auto it = renamed.find(stored);
  return it == renamed.end() ? stored : it->second;
}

}  // namespace

std::vector<const ReportRun*> ReportData::ok() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun& r : runs)
    if (r.run.run_class == records::RunClass::ok && r.measured() > 0) out.push_back(&r);
  return out;
}

std::vector<const ReportRun*> ReportData::failed() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun& r : runs)
    if (r.run.run_class != records::RunClass::ok || !(r.measured() > 0)) out.push_back(&r);
  return out;
}

std::vector<const ReportRun*> ReportData::predicted() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun* r : ok())
    if (r->prediction) out.push_back(r);
  return out;
}

std::vector<const ReportRun*> ReportData::contended() const {
  std::vector<const ReportRun*> out;
  for (const ReportRun* r : ok())
    if (r->run.contention.marked()) out.push_back(r);
  return out;
}

const ReportRun* ReportData::best() const {
  const auto all = ok();
  const auto it = std::max_element(
      all.begin(), all.end(), [](const ReportRun* a, const ReportRun* b) { return a->rate() < b->rate(); });
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

const ReportRun* ops_run(const ReportData& d) {
  const ReportRun* best = nullptr;
  for (const ReportRun* r : d.ok())
    if (!r->run.ops.empty() && (!best || r->rate() > best->rate())) best = r;
  return best;
}

ReportData collect(const std::vector<fs::path>& dirs, const CollectOptions& options) {
  ReportData d;
  d.dirs = dirs;
  d.sets = names_of(dirs);
  for (size_t i = 0; i < dirs.size(); ++i) {
    const size_t before = d.runs.size();
    for (records::RunRecord& r : records::load_runs(dirs[i], &d.problems)) {
      d.runs.emplace_back();
      d.runs.back().run = std::move(r);
      d.runs.back().set = d.sets[i];
    }
    if (d.runs.size() == before)
      throw ConfigError(dirs[i].string(), "", "holds no runs", "run `isobar sweep` or `isobar train` first");
  }
  name_runs(d);
  std::optional<Statistic> chosen = options.statistic;
  const auto choose = [&](Statistic s, const std::string& file) {
    if (chosen && *chosen != s)
      throw ConfigError(file, "statistic",
                        std::string("is ") + name_of(s) + ", and the report would be of " + name_of(*chosen),
                        std::string("fit with --statistic ") + name_of(*chosen) + ", or leave it out here");
    chosen = s;
  };
  measure(d, chosen.value_or(kStatistic));
  if (!options.machine.empty()) {
    predict_runs(d, options);
    if (d.predictor->fit) choose(d.predictor->fit->statistic, options.machine.string());
  }
  for (size_t i = 0; i < dirs.size() && options.machine.empty() && options.holdout; ++i) {
    const fs::path file = dirs[i] / "holdout.json";
    if (!fs::exists(file)) continue;
    const HoldoutFile h = read_holdout(file);
    choose(h.statistic, file.string());
    d.machine = h.machine;
    for (ReportRun& r : d.runs)
      if (const auto it = h.predictions.find(r.run.id); r.set == d.sets[i] && it != h.predictions.end())
        r.prediction = it->second;
  }
  measure(d, chosen.value_or(kStatistic));
  return d;
}

HoldoutFile read_holdout(const fs::path& file) {
  const json j = read_json(file);
  if (!j.is_object() || !j.contains("runs") || !j["runs"].is_array())
    throw ConfigError(file.string(), "runs", "is not a list of predicted runs",
                      "write the file anew with isobar fit");
  HoldoutFile out;
  out.machine = j.contains("machine") ? plain(j["machine"]) : "fitted";
  if (j.contains("statistic"))
    out.statistic = statistic_of(plain(j["statistic"]), file.string(), "statistic");
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
        if (seconds.is_number()) p.terms.emplace_back(current_term(name), seconds.get<double>());
    out.predictions[row["id"].get<std::string>()] = std::move(p);
  }
  return out;
}

}  // namespace isobar::report
