#include "model/records/naming.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

namespace isobar::records {
namespace {

using nlohmann::json;
using Settings = std::map<std::string, std::string>;

std::string plain_text(const json& v) {
  return v.is_string() ? v.get<std::string>() : v.dump(-1, ' ', false, json::error_handler_t::replace);
}

// All settings of a run by YAML name, except those that never affect a measurement.
Settings settings_of(const RunSpec& s) {
  Settings out;
  const json spec = to_json(s);
  for (const auto& [section, values] : spec.items()) {
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items())
      out[std::string(section).append(".").append(key)] = plain_text(value);
  }
  out.erase("run.out");
  out.erase("train.seed");
  return out;
}

std::vector<Settings> all_settings(const std::vector<Nameable>& all) {
  // Sweeps declare what they vary; for other runs it is the difference between their specifications.
  const bool swept = std::all_of(all.begin(), all.end(), [](const Nameable& n) {
    return n.axes && n.axes->is_object() && !n.axes->empty();
  });
  std::vector<Settings> out;
  out.reserve(all.size());
  for (const Nameable& n : all) {
    if (!swept) {
      out.push_back(settings_of(*n.spec));
      continue;
    }
    out.emplace_back();
    for (const auto& [key, value] : n.axes->items()) out.back()[key] = plain_text(value);
  }
  return out;
}

// Order of the words of a name: settings that readers look for first come first, because narrow screens cut
// the end off.
size_t weight_of(const std::string& key) {
  constexpr std::array<const char*, 10> kOrder = {
      "gpus",    "layout.", "policy.amp", "data.workers", "policy.micro_batch",
      "policy.", "net.",    "train.",     "data.",        "run."};
  size_t i = 0;
  while (i < kOrder.size() && !key.starts_with(kOrder[i])) ++i;
  return i;
}

std::vector<std::string> varied_keys(const std::vector<Settings>& all) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> having;
  for (const Settings& settings : all)
    for (const auto& [key, value] : settings) {
      values[key].insert(value);
      ++having[key];
    }
  std::vector<std::string> out;
  for (const auto& [key, seen] : values)
    if (seen.size() > 1 || having[key] < all.size()) out.push_back(key);
  std::stable_sort(out.begin(), out.end(),
                   [](const std::string& a, const std::string& b) { return weight_of(a) < weight_of(b); });
  return out;
}

// One word, without spaces unless the value contains some.
std::string word_for(const std::string& key, const std::string& value, bool only_one_of_its_name) {
  if (key == "policy.amp") return precision_name(value);
  if (key == "policy.micro_batch") return value == "0" ? "mb-all" : "mb" + value;
  if (key == "data.workers") return "w" + value;
  if (key == "train.global_batch") return "batch" + value;
  // The last component distinguishes paths.
  const bool path = value.find('/') != std::string::npos;
  return (only_one_of_its_name ? last_word(key) : key) + "=" +
         (path ? std::filesystem::path(value).filename().string() : value);
}

// Words for the parts of layouts that vary.
class Layouts {
 public:
  explicit Layouts(const std::vector<Nameable>& all) {
    std::array<std::set<std::string>, kParts> seen;
    for (const Nameable& n : all) {
      const auto words = words_of(n.spec->layout, n.spec->policy);
      for (size_t i = 0; i < kParts; ++i) seen[i].insert(words[i]);
    }
    for (size_t i = 0; i < kParts; ++i) varies_[i] = seen[i].size() > 1;
  }

  bool vary() const { return std::find(varies_.begin(), varies_.end(), true) != varies_.end(); }

  std::string words(const RunSpec& s) const {
    if (!vary()) return layout_words(s);
    std::string out;
    const auto words = words_of(s.layout, s.policy);
    for (size_t i = 0; i < kParts; ++i)
      if (varies_[i] && !words[i].empty()) out += (out.empty() ? "" : " ") + words[i];
    return out.empty() ? layout_words(s) : out;
  }

 private:
  static constexpr size_t kParts = 10;

  // "" if a part does not apply.
  static std::array<std::string, kParts> words_of(const LayoutSpec& l, const PolicySpec& p) {
    const auto sized = [](const char* name, int64_t n) { return name + std::to_string(n); };
    return {sized("dp", l.dp),
            sized("tp", l.tp),
            l.tp > 1 && p.sequence_parallel ? "sp" : "",
            sized("cp", l.cp),
            l.cp > 1 ? name_of(p.cp_kind) : "",
            l.ep > 1 ? sized("ep", l.ep) : "",
            sized("pp", l.pp),
            sized("vpp", l.vpp),
            l.pp > 1 ? name_of(p.schedule) : "",
            sized("zero", p.zero)};
  }

  std::array<bool, kParts> varies_{};
};

// Appends " #2" or " #2 again"; runs outside sweeps that are still equal get their index.
std::vector<std::string> made_unique(const std::vector<Nameable>& all, std::vector<std::string> names) {
  std::map<std::string, std::vector<size_t>> alike;
  for (size_t i = 0; i < names.size(); ++i) alike[names[i]].push_back(i);
  for (const auto& [name, members] : alike) {
    if (members.size() < 2) continue;
    std::set<std::pair<int64_t, bool>> turns;
    for (const size_t i : members) turns.insert({all[i].repetition, all[i].again});
    const bool tells = turns.size() == members.size();
    for (size_t k = 0; k < members.size(); ++k) {
      const Nameable& n = all[members[k]];
      names[members[k]] += " #" + std::to_string(tells ? n.repetition + 1 : static_cast<int64_t>(k) + 1);
      if (tells && n.again) names[members[k]] += " again";
    }
  }
  return names;
}

}  // namespace

std::string last_word(const std::string& key) {
  return key.substr(key.find_last_of('.') + 1);
}

bool is_layout_key(const std::string& key) {
  constexpr std::array<const char*, 12> kKeys = {
      "ranks",           "gpus",           "layout.dp",
      "layout.tp",       "layout.cp",      "layout.pp",
      "layout.vpp",      "layout.ep",      "policy.zero",
      "policy.schedule", "policy.cp_kind", "policy.sequence_parallel"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

std::string folder_name(std::string label) {
  std::replace(label.begin(), label.end(), '/', '_');
  return label.starts_with('.') ? "_" + label : label;
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
  if (s.layout.cp > 1) out += " " + name_of(s.policy.cp_kind);
  add("ep", s.layout.ep);
  add("pp", s.layout.pp);
  add("vpp", s.layout.vpp);
  if (s.layout.pp > 1) out += " " + name_of(s.policy.schedule);
  if (s.policy.zero > 0) out += " zero" + std::to_string(s.policy.zero);
  return out.empty() ? "1 rank" : out;
}

Names name_by_difference(const std::vector<Nameable>& all) {
  Names out;
  std::vector<Settings> settings = all_settings(all);
  out.varied = varied_keys(settings);
  const Layouts layouts(all);
  std::map<std::string, int> short_names;
  for (const std::string& key : out.varied) ++short_names[last_word(key)];
  std::vector<std::string> in_sets;
  for (size_t i = 0; i < all.size(); ++i) {
    out.layouts.push_back(layouts.words(*all[i].spec));
    std::string name = layouts.vary() ? out.layouts.back() : "";
    Settings varied;
    for (const std::string& key : out.varied) {
      const auto it = settings[i].find(key);
      if (it == settings[i].end()) continue;
      varied[key] = it->second;
      if (!is_layout_key(key))
        name += (name.empty() ? "" : " ") + word_for(key, it->second, short_names[last_word(key)] == 1);
    }
    in_sets.push_back(all[i].set + (all[i].set.empty() || name.empty() ? "" : ", ") + name);
    out.names.push_back(name.empty() ? "base" : std::move(name));
    if (in_sets.back().empty()) in_sets.back() = "base";
    out.settings.push_back(std::move(varied));
  }
  out.labels = made_unique(all, std::move(in_sets));
  return out;
}

}  // namespace isobar::records
