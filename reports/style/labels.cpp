// Names of the runs of a report (model/records/naming.h), and the settings that readers can filter by.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "model/records/naming.h"
#include "reports/data.h"

namespace isobar::report {
namespace {

bool number_of(const std::string& s, double* value) {
  char* end = nullptr;
  *value = std::strtod(s.c_str(), &end);
  return !s.empty() && *end == '\0';
}

bool before(const std::string& a, const std::string& b) {
  double x = 0, y = 0;
  if (number_of(a, &x) && number_of(b, &y)) return x < y;
  if ((a == "none") != (b == "none")) return a == "none";  // "none" sorts first
  return a < b;
}

void find_facets(ReportData& d) {
  constexpr size_t kMost = 30;  // most values of a filter
  const auto add = [&](const std::string& key, const std::string& title, auto&& value_of) {
    std::set<std::string> seen;
    for (const ReportRun& r : d.runs) seen.insert(value_of(r));
    if (seen.size() < 2 || seen.size() > kMost) return;
    Facet f{key, title, {seen.begin(), seen.end()}};
    std::sort(f.values.begin(), f.values.end(), before);
    d.facets.push_back(std::move(f));
  };
  add("set", "results", [](const ReportRun& r) { return facet_value(r, "set"); });
  add("layout", "layout", [](const ReportRun& r) { return facet_value(r, "layout"); });
  const std::map<std::string, std::string> titles = {{"policy.amp", "precision"},
                                                     {"policy.micro_batch", "micro-batch"},
                                                     {"data.workers", "loader workers"},
                                                     {"train.global_batch", "global batch"}};
  for (const std::string& key : d.varied) {
    const auto title = titles.find(key);
    if (!records::is_layout_key(key))
      add(key, title == titles.end() ? records::last_word(key) : title->second,
          [&](const ReportRun& r) { return facet_value(r, key); });
  }
}

}  // namespace

std::string facet_value(const ReportRun& r, const std::string& key) {
  if (key == "set") return r.set;
  if (key == "layout") return r.layout;
  const auto it = r.axes.find(key);
  if (it == r.axes.end()) return "(not set)";
  return key == "policy.amp" ? precision_name(it->second) : it->second;
}

void name_runs(ReportData& d) {
  std::vector<records::Nameable> all;
  for (const ReportRun& r : d.runs)
    all.push_back({.spec = &r.run.spec,
                   .axes = &r.run.axes,
                   .repetition = r.run.repetition,
                   .again = !r.run.repeats.empty(),
                   .set = d.sets.size() > 1 ? r.set : ""});
  records::Names names = records::name_by_difference(all);
  d.varied = names.varied;
  for (size_t i = 0; i < d.runs.size(); ++i) {
    ReportRun& r = d.runs[i];
    r.layout = names.layouts[i];
    r.axes = std::move(names.settings[i]);
    // A single run is named by its folder.
    const bool only = d.varied.empty() && d.runs.size() == 1;
    r.name = only ? r.run.id : names.names[i];
    r.label = only ? r.run.id : names.labels[i];
  }
  find_facets(d);
}

}  // namespace isobar::report
