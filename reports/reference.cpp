#include "reports/reference.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/system/lock.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/hash.h"

namespace isobar::report {
namespace {

using nlohmann::json;
constexpr const char* kMendLine =
    "remove the line, or write the reference anew with --update into another file";

json written(const ReferenceRun& r) {
  const Measured& m = r.measured;
  json j = {{"experiment", r.experiment},
            {"label", m.label},
            {"layout", m.layout},
            {"id", m.id},
            {"statistic", name_of(r.statistic)},
            {"step_s", std::exp(m.log_s)},
            {"cpu", r.cpu},
            {"host", r.host},
            {"commit", r.commit},
            {"time_utc", r.time_utc},
            {"update", r.update}};
  if (m.own.variance > 0) j["noise"] = {{"variance", m.own.variance}, {"df", m.own.df}};
  return j;
}

ReferenceRun parsed(const std::string& line, const std::filesystem::path& file, const std::string& place) {
  const json j = json::parse(line, nullptr, false);
  if (!j.is_object()) throw ConfigError(file, place, "is no JSON object", kMendLine);
  require_shape(j, file,
                {{"/experiment", "string"},
                 {"/label", "string"},
                 {"/step_s", "number"},
                 {"/cpu", "string"},
                 {"/statistic", "string"},
                 {"/update", "integer"},
                 {"/noise?", "object"},
                 {"/id?", "string"},
                 {"/layout?", "string"},
                 {"/host?", "string"},
                 {"/commit?", "string"},
                 {"/time_utc?", "string"}},
                kMendLine);
  ReferenceRun r;
  r.experiment = j["experiment"];
  r.cpu = j["cpu"];
  r.host = j.value("host", "");
  r.commit = j.value("commit", "");
  r.time_utc = j.value("time_utc", "");
  r.update = j["update"].get<int64_t>();
  const double step_s = j["step_s"];
  if (!(step_s > 0) || !std::isfinite(step_s))
    throw ConfigError(file, place + ", step_s", "is no time", kMendLine);
  r.statistic = statistic_of(j["statistic"].get<std::string>(), file.string(), place + ", statistic");
  r.measured = {j.value("id", ""), j["label"], j.value("layout", ""), std::log(step_s), {}};
  if (j.contains("noise")) {
    require_shape(j["noise"], file, {{"/variance", "number"}, {"/df", "number"}}, kMendLine);
    r.measured.own = {j["noise"]["variance"], j["noise"]["df"]};
  }
  return r;
}

}  // namespace

std::map<std::string, Repetitions> Reference::latest(const std::string& cpu) const {
  std::map<std::string, int64_t> last;
  for (const ReferenceRun& r : runs)
    if (r.cpu == cpu) last[r.experiment] = std::max(last[r.experiment], r.update);
  std::map<std::string, Repetitions> out;
  for (const ReferenceRun& r : runs)
    if (r.cpu == cpu && r.update == last[r.experiment]) out[r.experiment].push_back(r.measured);
  return out;
}

Reference read_reference(const std::filesystem::path& file) {
  Reference out;
  const std::string text = read_file(file, most::table, "--reference");
  std::istringstream in(text);
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.empty()) out.runs.push_back(parsed(line, file, "line " + std::to_string(number)));
  }
  return out;
}

std::string experiment_id(const ReportRun& r) {
  return sha256_hex(records::experiment_of(r.run.spec)).substr(0, 16);
}

std::vector<ReferenceRun> entries_of(const ReportData& d) {
  std::vector<ReferenceRun> out;
  for (const ReportRun* r : d.ok()) {
    if (r->run.contention.marked()) continue;
    const json& p = r->run.provenance;
    out.push_back({.experiment = experiment_id(*r),
                   .measured = measured(*r),
                   .statistic = r->statistic,
                   .cpu = p.value("cpu", ""),
                   .host = p.value("host", ""),
                   .commit = p.value("commit", ""),
                   .time_utc = r->run.time_utc});
  }
  return out;
}

void append_reference(const std::filesystem::path& file, std::vector<ReferenceRun> runs) {
  const FileLock lock(file.string() + ".lock", 30);
  if (!lock.held())
    throw ConfigError(file, "", "is being updated by another process",
                      "wait for it, and give the command again");
  Reference before;
  std::string text;
  if (std::filesystem::exists(file)) {
    before = read_reference(file);
    text = read_file(file, most::table, "--reference");
  }
  for (ReferenceRun& r : runs) {
    r.update = before.updates() + 1;
    text += written(r).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  write_atomically(file, text);  // an update is written whole or not at all
}

}  // namespace isobar::report
