#include "model/base/spec_keys.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/spec.h"

namespace isobar {
namespace {

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
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

std::string joined_words(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
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

std::vector<SpecKey> spec_keys() {
  const std::vector<std::string> kinds = NetSpec::kinds();
  std::map<std::string, std::map<std::string, std::string>> types, presets;  // by kind and key
  for (const std::string& kind : kinds) {
    RunSpec s;
    s.net.set_kind(kind);
    types[kind] = {{"net.kind", "text"}};
    for (const auto& [key, type] : key_types(kind)) types[kind][key] = type;
    const nlohmann::json all = to_json(s);
    for (const auto& [section, values] : all.items())
      for (const auto& [name, value] : values.items())
        presets[kind][section + "." + name] = preset_text(value);
  }
  std::vector<SpecKey> out;
  for (const auto& rows : {net_key_rows(), data_key_rows(), train_key_rows(), policy_key_rows()})
    for (const KeyRow& row : rows) {
      SpecKey k{row.key, {}, false, "", row.values, "", row.help};
      std::istringstream words(row.nets);
      const std::vector<std::string> wanted{std::istream_iterator<std::string>(words), {}};
      std::vector<std::pair<std::string, std::string>> preset;
      for (const std::string& kind : kinds) {
        const bool listed = wanted.empty() || std::find(wanted.begin(), wanted.end(), kind) != wanted.end();
        if (!listed || !types[kind].contains(k.key)) continue;
        k.nets.push_back(kind);
        k.type = types[kind][k.key];
        preset.emplace_back(kind, presets[kind][k.key]);
      }
      if (k.nets.empty()) continue;
      k.every_net = k.nets.size() == kinds.size();
      k.preset = k.key == "net.kind" ? VitSpec::kKind : merged_presets(preset);
      out.push_back(std::move(k));
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
    out += "| `" + k.key + "` | " + (k.every_net ? "" : joined_words(k.nets, " ")) + " | " +
           allowed_values(k) + " | " + preset + " | " + k.help + " |\n";
  }
  return out;
}

}  // namespace isobar
