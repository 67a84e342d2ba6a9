#include "bench/sweep/compose.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "bench/sweep/spec.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"

namespace isobar::sweep {

using nlohmann::json;

namespace {

// Short names of frequently swept keys.
const std::map<std::string, std::string>& short_keys() {
  static const std::map<std::string, std::string> names = {{"gpus", kRanksKey},
                                                           {"ranks", kRanksKey},
                                                           {"dp", "layout.dp"},
                                                           {"tp", "layout.tp"},
                                                           {"cp", "layout.cp"},
                                                           {"pp", "layout.pp"},
                                                           {"ep", "layout.ep"},
                                                           {"amp", "policy.amp"},
                                                           {"micro_batch", "policy.micro_batch"},
                                                           {"workers", "data.workers"},
                                                           {"global_batch", "train.global_batch"},
                                                           {"batch", "train.global_batch"}};
  return names;
}

}  // namespace

std::string full_key(const std::string& name) {
  const auto it = short_keys().find(name);
  return it == short_keys().end() ? name : it->second;
}

std::vector<std::string> short_names() {
  std::vector<std::string> out;
  for (const auto& one : short_keys()) out.push_back(one.first);
  return out;
}

namespace {

constexpr const char* kCommand = "isobar sweep";

bool is_sweep_key(const std::string& key) {
  return std::find(sweep_keys().begin(), sweep_keys().end(), key) != sweep_keys().end();
}

bool is_run(const json& file) {
  const std::vector<std::string> sections = {"net", "layout", "policy", "train", "data", "run"};
  return std::any_of(sections.begin(), sections.end(),
                     [&](const std::string& section) { return file.contains(section); });
}

// Removes the key in every spelling and nesting.
void erase_key(json& section, const std::string& key, const std::string& prefix = "") {
  if (!section.is_object()) return;
  for (auto it = section.begin(); it != section.end();) {
    const std::string path = prefix + it.key();
    if (it->is_object()) erase_key(*it, key, path + ".");
    const bool emptied = it->is_object() && it->empty();
    it = emptied || (!it->is_object() && full_key(path) == key) ? section.erase(it) : std::next(it);
  }
}

struct Word {
  std::string name, key;
  json values;  // a list
};

Word parse(const std::string& word) {
  const size_t eq = word.find('=');
  if (eq == std::string::npos || eq == 0)
    throw ConfigError(kCommand, word, "is not KEY=VALUES", "write e.g. layout.tp=1,2,4");
  Word w{word.substr(0, eq), full_key(word.substr(0, eq)), nullptr};
  w.values = parse_yaml("[" + word.substr(eq + 1) + "]", std::string(kCommand) + ", " + w.name);
  if (w.values.empty())
    throw ConfigError(kCommand, word, "gives no value", "write e.g. " + w.name + "=1,2,4");
  return w;
}

void apply(json& sweep, const Word& w) {
  if (is_sweep_key(w.key)) {
    sweep[w.key] = w.values.size() == 1 ? w.values[0] : w.values;
    return;
  }
  for (const char* section : {"set", "axes"})
    if (sweep.contains(section)) {
      erase_key(sweep[section], w.key);
      if (sweep[section].empty()) sweep.erase(section);
    }
  if (sweep.contains("when") && sweep["when"].is_array()) {
    json rules = json::array();
    for (json rule : sweep["when"]) {
      if (rule.is_object() && rule.contains("axes")) {
        erase_key(rule["axes"], w.key);
        if (rule["axes"].empty()) continue;
      }
      rules.push_back(std::move(rule));
    }
    sweep["when"] = std::move(rules);
    if (sweep["when"].empty()) sweep.erase("when");
  }
  const bool axis = w.values.size() > 1 || w.values[0] == "any";
  sweep[axis ? "axes" : "set"][w.key] = w.values.size() > 1 ? w.values : w.values[0];
}

}  // namespace

json compose_sweep(const std::string& path, const std::vector<std::string>& words) {
  json sweep = load_yaml(path);
  if (is_run(sweep) && words.empty())
    throw ConfigError(path, "", "is a run configuration, and nothing is said to vary",
                      "name axes behind it, e.g. gpus=1,2 amp=none,bf16, or a sweep file");
  if (is_run(sweep)) sweep = {{"base", std::filesystem::path(path).filename().string()}};
  std::set<std::string> given;
  for (const std::string& word : words) {
    const Word w = parse(word);
    if (!given.insert(w.key).second)
      throw ConfigError(kCommand, word, "gives " + w.key + " for the second time", "keep one of the two");
    apply(sweep, w);
  }
  return sweep;
}

std::string sweep_file_text(json sweep, const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  for (const char* key : {"base", "machine"}) {
    if (!sweep.contains(key) || !sweep[key].is_string()) continue;
    const fs::path named = fs::path(path).parent_path() / sweep[key].get<std::string>();
    std::error_code none;
    if (fs::exists(named, none)) sweep[key] = fs::proximate(named, folder).string();
  }
  return to_yaml(sweep);
}

}  // namespace isobar::sweep
