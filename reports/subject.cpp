// The words of a report of runs: net and its size, data, machine, dates and number of runs. Values that
// differ among runs are given as a range or a count.
#include <algorithm>
#include <ctime>
#include <functional>
#include <set>

#include "model/base/system/shared_files.h"
#include "model/records/naming.h"
#include "reports/page.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json sweep_of(const fs::path& dir) {
  const json j = json_if_there(dir / "sweep.json");
  return j.is_object() ? j : json::object();
}

// Metadata ("about") that the user gave a sweep or a run.
json about_of(const ReportData& d, size_t set) {
  const json sweep = sweep_of(d.dirs[set]);
  if (sweep.contains("about") && sweep["about"].is_object() && !sweep["about"].empty()) return sweep["about"];
  if (d.runs.size() == 1 && d.runs[0].run.provenance.is_object())
    return d.runs[0].run.provenance.value("about", json::object());
  return json::object();
}

std::string text_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string name_of_set(const ReportData& d, size_t set) {
  if (const std::string name = text_of(about_of(d, set), "name"); !name.empty()) return name;
  const std::string file = text_of(sweep_of(d.dirs[set]), "file");
  return file.empty() || d.sets.size() > 1 ? d.sets[set] : fs::path(file).stem().string();
}

// "8", "8 and 16", "8 to 64", "5 kinds".
std::string all_of(const ReportData& d, const std::function<std::string(const ReportRun&)>& value) {
  constexpr size_t kListed = 3;
  std::set<std::string> seen;
  for (const ReportRun& r : d.runs)
    if (const std::string v = value(r); !v.empty()) seen.insert(v);
  std::string out;
  size_t i = 0;
  if (seen.size() > kListed) return std::to_string(seen.size()) + " different ones";
  for (const std::string& v : seen) out += (i++ == 0 ? "" : i == seen.size() ? " and " : ", ") + v;
  return out;
}

std::string range_of(const ReportData& d, const std::function<int64_t(const ReportRun&)>& value) {
  int64_t low = INT64_MAX, high = 0;
  for (const ReportRun& r : d.runs)
    if (const int64_t v = value(r); v > 0) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
  if (high == 0) return "";
  return integer(low).text + (low == high ? "" : " to " + integer(high).text);
}

std::string fact(const ReportRun& r, const char* key) {
  const json& p = r.run.provenance;
  const auto it = p.is_object() ? p.find(key) : p.end();
  if (!p.is_object() || it == p.end()) return "";
  return it->is_string() ? it->get<std::string>() : it->is_number() ? it->dump() : "";
}

std::string data_words(const ReportRun& r) {
  const std::string& path = r.run.spec.data.train;
  return path.empty() ? "synthetic noise" : path;
}

std::string machine_words(const ReportData& d) {
  return all_of(d, [](const ReportRun& r) { return fact(r, r.run.on_gpu ? "gpu" : "cpu"); });
}

// "2026-11-23 11:16 to 11:24 UTC"
std::string when(const ReportData& d) {
  std::string first, last;
  for (const ReportRun& r : d.runs) {
    const std::string& t = r.run.time_utc;
    if (t.size() < 16) continue;
    if (first.empty() || t < first) first = t;
    last = std::max(last, t);
  }
  if (first.empty()) return "";
  const auto day = [](const std::string& t) { return t.substr(0, 10); };
  const auto minute = [](const std::string& t) { return t.substr(11, 5); };
  std::string out = day(first) + " " + minute(first);
  if (first.substr(0, 16) != last.substr(0, 16))
    out += " to " + (day(first) == day(last) ? "" : day(last) + " ") + minute(last);
  return out + " UTC";
}

void join(std::string& line, const std::string& more) {
  if (!more.empty()) line += (line.empty() ? "" : "; ") + more;
}

std::string net_line(const ReportData& d) {
  std::string line = all_of(d, [](const ReportRun& r) { return std::string(r.run.spec.net.kind()); });
  const std::string parameters = range_of(d, [](const ReportRun& r) { return r.run.parameters; });
  if (!parameters.empty()) line += " of " + parameters + " parameters";
  line = "Net: " + line;
  join(line, "global batch " + range_of(d, [](const ReportRun& r) { return r.run.spec.train.global_batch; }));
  join(line, "data: " + all_of(d, data_words));
  const std::string precisions =
      all_of(d, [](const ReportRun& r) { return precision_name(r.run.spec.policy.amp); });
  join(line, precisions);
  return line + ".";
}

std::string machine_line(const ReportData& d) {
  std::string line;
  join(line, machine_words(d));
  const std::string cores = all_of(d, [](const ReportRun& r) { return fact(r, "cores"); });
  if (!cores.empty()) join(line, cores + " cores");
  const std::string hosts = all_of(d, [](const ReportRun& r) { return fact(r, "host"); });
  if (!hosts.empty()) join(line, "host " + hosts);
  join(line, when(d));
  return line.empty() ? "" : "Machine: " + line + ".";
}

std::string runs_line(const ReportData& d) {
  std::set<std::string> specifications;
  for (const ReportRun& r : d.runs) specifications.insert(r.name);
  const size_t all = d.runs.size(), failed = d.failed().size();
  std::string line = std::to_string(all) + (all == 1 ? " run" : " runs");
  if (d.sets.size() == 1 && specifications.size() < all)
    line += " of " + std::to_string(specifications.size()) + " specifications";
  line += failed == 0 ? (all == 1 ? ", which finished" : ", all finished")
                      : ", " + std::to_string(failed) + " of which did not finish";
  std::string varied;
  for (const Facet& f : d.facets) varied += (varied.empty() ? "" : ", ") + f.title;
  return "Runs: " + line + (varied.empty() ? "" : "; what varies: " + varied) + ".";
}

std::string today() {
  char s[40];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(s, sizeof s, "%Y-%m-%d %H:%M UTC", &utc);
  return s;
}

}  // namespace

PageText text_of_page(const ReportData& d, const std::vector<Comparison>& comparisons) {
  PageText text{
      .facts = facts_of(d, comparisons), .sentences = story(d, comparisons), .problems = d.problems};
  if (d.sets.size() == 1) {
    text.title = name_of_set(d, 0);
    const std::string machine = machine_words(d);
    if (!machine.empty()) text.title += " on " + machine;
    const std::string ranks = range_of(d, [](const ReportRun& r) { return r.run.ranks; });
    if (!ranks.empty()) text.title += ", " + ranks + (ranks == "1" ? " rank" : " ranks");
  } else {
    for (size_t i = 1; i < d.sets.size(); ++i) text.title += (i == 1 ? "" : " and ") + name_of_set(d, i);
    text.title += " against " + name_of_set(d, 0);
  }
  text.subject = net_line(d);
  if (const std::string line = machine_line(d); !line.empty()) text.subject += " " + line;
  text.subject += " " + runs_line(d);
  for (size_t i = 0; i < d.sets.size(); ++i) {
    const json about = about_of(d, i);
    std::string line = text_of(about, "note");
    if (const auto tags = about.find("tags"); tags != about.end() && tags->is_array())
      for (const json& tag : *tags)
        if (tag.is_string()) line += (line.empty() ? "#" : " #") + tag.get<std::string>();
    if (!line.empty()) text.subject += " " + (d.sets.size() > 1 ? d.sets[i] + ": " : "") + line;
  }
  for (const auto& dir : d.dirs)
    text.made += (text.made.empty() ? "" : " and ") + dir.lexically_normal().string();
  text.made += "; report of " + today() + (d.machine.empty() ? "" : "; predictions by " + d.machine);
  return text;
}

}  // namespace isobar::report
