// Names for runs: as short as they can be while they still tell the runs apart, because they stand on axes
// and in tooltips. Layout first, then what else varies: "pp2 zb-h1, bf16, mb4, w2" (4 samples a micro-batch,
// 2 loader workers).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "reports/data.h"

namespace isobar {
namespace {

using nlohmann::json;
using Settings = std::map<std::string, std::string>;

std::string plain_text(const json& v) {
  return v.is_string() ? v.get<std::string>()
                       : v.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string last_word(const std::string& key) {
  return key.substr(key.find_last_of('.') + 1);
}

// Settings that layout_words() speaks of.
bool in_layout(const std::string& key) {
  constexpr std::array<const char*, 11> kKeys = {"ranks",
                                                 "gpus",
                                                 "layout.dp",
                                                 "layout.tp",
                                                 "layout.cp",
                                                 "layout.pp",
                                                 "layout.vpp",
                                                 "policy.zero",
                                                 "policy.schedule",
                                                 "policy.cp_kind",
                                                 "policy.sequence_parallel"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

// All settings of a run under their YAML names, but for those that never change what it measures.
Settings settings_of(const RunRecord& r) {
  Settings out;
  const json spec = to_json(r.spec);
  for (const auto& [section, values] : spec.items()) {
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items())
      out[std::string(section).append(".").append(key)] = plain_text(value);
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

bool number_of(const std::string& s, double* value) {
  char* end = nullptr;
  *value = std::strtod(s.c_str(), &end);
  return !s.empty() && *end == '\0';
}

bool before(const std::string& a, const std::string& b) {
  double x = 0, y = 0;
  if (number_of(a, &x) && number_of(b, &y)) return x < y;
  if ((a == "none") != (b == "none")) return a == "none";  // what is switched off comes first
  return a < b;
}

std::string words_for(const std::string& key, const std::string& value, bool only_one_of_its_name) {
  if (key == "policy.amp") return value == "none" ? "fp32" : value;
  if (key == "policy.micro_batch") return value == "0" ? "mb all" : "mb" + value;
  if (key == "data.workers") return "w" + value;
  if (key == "train.global_batch") return "batch " + value;
  return (only_one_of_its_name ? last_word(key) : key) + "=" + value;
}

std::vector<Settings> all_settings(const ReportData& d) {
  // Sweeps say themselves what they vary; of other runs it is what differs between their specifications.
  const bool swept = std::all_of(d.runs.begin(), d.runs.end(), [](const ReportRun& r) {
    return r.run.axes.is_object() && !r.run.axes.empty();
  });
  std::vector<Settings> all;
  for (const ReportRun& r : d.runs) {
    if (swept) {
      all.emplace_back();
      for (const auto& [key, value] : r.run.axes.items()) all.back()[key] = plain_text(value);
    } else {
      all.push_back(settings_of(r.run));
    }
  }
  return all;
}

void find_facets(ReportData& d) {
  constexpr size_t kMost = 30;  // values that one can choose among
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
    if (!in_layout(key))
      add(key, title == titles.end() ? last_word(key) : title->second,
          [&](const ReportRun& r) { return facet_value(r, key); });
  }
}

}  // namespace

std::string facet_value(const ReportRun& r, const std::string& key) {
  if (key == "set") return r.set;
  if (key == "layout") return r.layout;
  const auto it = r.axes.find(key);
  if (it == r.axes.end()) return "(not set)";
  return key == "policy.amp" && it->second == "none" ? "fp32" : it->second;
}

std::string layout_words(const RunSpec& s) {
  std::string out;
  const auto add = [&](const char* name, int64_t n) {
    if (n > 1) out += (out.empty() ? "" : " ") + std::string(name) + std::to_string(n);
  };
  add("dp", s.layout.dp);
  add("tp", s.layout.tp);
  if (s.layout.tp > 1 && s.policy.sequence_parallel) out += " sp";
  add("cp", s.layout.cp);
  if (s.layout.cp > 1) out += " " + s.policy.cp_kind;
  add("pp", s.layout.pp);
  add("vpp", s.layout.vpp);
  if (s.layout.pp > 1) out += " " + s.policy.schedule;
  if (s.policy.zero > 0) out += " ZeRO-" + std::to_string(s.policy.zero);
  return out.empty() ? "1 rank" : out;
}

void name_runs(ReportData& d) {
  const std::vector<Settings> all = all_settings(d);
  std::map<std::string, std::set<std::string>> values;
  for (const auto& settings : all)
    for (const auto& [key, value] : settings) values[key].insert(value);
  for (const auto& [key, seen] : values) {
    const bool everywhere =
        std::all_of(all.begin(), all.end(), [&k = key](const auto& s) { return s.count(k) > 0; });
    if (seen.size() > 1 || !everywhere) d.varied.push_back(key);
  }
  std::stable_sort(d.varied.begin(), d.varied.end(),
                   [](const std::string& a, const std::string& b) { return weight_of(a) < weight_of(b); });
  const bool layouts_vary = std::any_of(d.varied.begin(), d.varied.end(), in_layout);
  std::map<std::string, int> short_names, uses;
  for (const std::string& key : d.varied) ++short_names[last_word(key)];
  for (size_t i = 0; i < d.runs.size(); ++i) {
    ReportRun& r = d.runs[i];
    r.layout = layout_words(r.run.spec);
    const auto add = [&](const std::string& words) { r.label += (r.label.empty() ? "" : ", ") + words; };
    if (d.sets.size() > 1) add(r.set);
    if (layouts_vary) add(r.layout);
    for (const std::string& key : d.varied) {
      const auto it = all[i].find(key);
      if (it == all[i].end()) continue;
      r.axes[key] = it->second;
      if (!in_layout(key)) add(words_for(key, it->second, short_names[last_word(key)] == 1));
    }
    if (r.label.empty()) r.label = r.run.id;
    ++uses[r.label];
  }
  std::map<std::string, int> seen;  // repetitions get a number, so that each label is one run
  for (ReportRun& r : d.runs)
    if (uses[r.label] > 1) r.label += " #" + std::to_string(++seen[r.label]);
  find_facets(d);
}

}  // namespace isobar
