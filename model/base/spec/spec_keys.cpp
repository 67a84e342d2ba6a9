#include "model/base/spec/spec_keys.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/spec/spec_rows.h"
#include "model/base/text/joined.h"

namespace isobar {
namespace {

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

const nlohmann::json& value_of(const nlohmann::json& spec, const std::string& key) {
  return spec.at(section_of(key)).at(key.substr(key.find('.') + 1));
}

std::string preset_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  char text[32];
  std::snprintf(text, sizeof text, "%g", value.get<double>());
  return text;
}

// "384; unet 96": the default that most kinds have, then those of the others.
std::string merged_presets(const std::vector<std::pair<std::string, std::string>>& of_kinds) {
  std::map<std::string, int> counts;
  for (const auto& [kind, value] : of_kinds) ++counts[value];
  std::string usual = of_kinds.front().second;
  for (const auto& [kind, value] : of_kinds)
    if (counts[value] > counts[usual]) usual = value;
  std::string out = usual;
  for (const auto& [kind, value] : of_kinds)
    if (value != usual) out += "; " + kind + " " + value;
  return out;
}

// "[1, 8]" as "1 to 8"; half-open ranges stay in brackets.
std::string range_text(const std::string& range) {
  if (!range.starts_with("[") || !range.ends_with("]")) return range;
  const size_t comma = range.find(", ");
  return range.substr(1, comma - 1) + " to " + range.substr(comma + 2, range.size() - comma - 3);
}

// Names as code, a type with its range otherwise.
std::string allowed_values(const SpecKey& k) {
  if (k.values.find('|') == std::string::npos)
    return k.values.empty() ? k.type : k.type + " " + range_text(k.values);
  std::istringstream names(k.values);
  std::string out, name;
  while (names >> name)
    if (name != "|") out += (out.empty() ? "`" : " `") + name + "`";
  return out;
}

}  // namespace

namespace {

/// A row as it is documented, with its kinds of nets and their defaults
struct Documented {
  SpecKey key;
  std::vector<std::pair<std::string, std::string>> presets;
  bool same_as(const SpecKey& k) const {
    return key.key == k.key && key.help == k.help && key.values == k.values && key.type == k.type;
  }
};

// Beside the rows of other kinds with this key, else after `previous`, the row before it
size_t place_of(const std::string& key, const std::vector<Documented>& all, size_t previous) {
  for (size_t i = all.size(); i-- > 0;)
    if (all[i].key.key == key) return i + 1;
  return all.empty() ? 0 : previous + 1;
}

}  // namespace

std::vector<SpecKey> spec_keys() {
  const std::vector<std::string> kinds = NetSpec::kinds();
  std::vector<Documented> all;
  for (const std::string& kind : kinds) {
    RunSpec s;
    s.net.set_kind(kind);
    const nlohmann::json presets = to_json(s);
    size_t at = 0;
    for (const KeyRow& row : key_rows(s)) {
      const SpecKey k{row.key, {}, false, row.type(), row.values(), "", row.help};
      const auto same =
          std::find_if(all.begin(), all.end(), [&](const Documented& d) { return d.same_as(k); });
      at = same != all.end() ? static_cast<size_t>(same - all.begin()) : place_of(row.key, all, at);
      if (same == all.end()) all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), {k, {}});
      all[at].presets.emplace_back(kind, preset_text(value_of(presets, k.key)));
    }
  }
  std::vector<SpecKey> out{
      {"net.kind", kinds, true, "text", joined(kinds, " | "), VitSpec::kKind, "The net."}};
  for (Documented& d : all) {
    for (const auto& [kind, preset] : d.presets) d.key.nets.push_back(kind);
    d.key.every_net = d.key.nets.size() == kinds.size();
    d.key.preset = merged_presets(d.presets);
    out.push_back(std::move(d.key));
  }
  return out;
}

std::string spec_keys_markdown(const std::vector<SpecKey>& keys) {
  std::string out =
      "# Keys of a run configuration\n\n"
      "Written by `isobar config keys --markdown`; a test holds this file to the program. How they are used: "
      "[README.md](README.md).\n";
  std::string section;
  for (const SpecKey& k : keys) {
    if (section_of(k.key) != section) {
      section = section_of(k.key);
      out += "\n## " + section + "\n\n| key | nets | value | default | meaning |\n|---|---|---|---|---|\n";
    }
    const std::string preset = k.preset.empty() ? "" : "`" + k.preset + "`";
    out += "| `" + k.key + "` | " + (k.every_net ? "" : joined(k.nets, " ")) + " | " + allowed_values(k) +
           " | " + preset + " | " + k.help + " |\n";
  }
  return out;
}

}  // namespace isobar
