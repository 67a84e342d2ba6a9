#include "model/base/spec/spec_schema.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "model/base/spec/spec.h"

namespace isobar {
namespace {

using nlohmann::json;

std::vector<std::string> words_in(const std::string& values) {
  std::istringstream in(values);
  std::vector<std::string> out;
  for (std::string word; in >> word;)
    if (word != "|") out.push_back(word);
  return out;
}

// Bounds as SpecKey::values has them: ">= 1", "> 0", "[0, 1)"
void add_bounds(json& schema, const std::string& values) {
  const auto number = [](const std::string& text) {
    const double x = std::strtod(text.c_str(), nullptr);
    return x == static_cast<double>(static_cast<int64_t>(x)) ? json(static_cast<int64_t>(x)) : json(x);
  };
  if (values.starts_with(">= ")) schema["minimum"] = number(values.substr(3));
  if (values.starts_with("> ")) schema["exclusiveMinimum"] = number(values.substr(2));
  if (values.empty() || (values[0] != '[' && values[0] != '(')) return;
  const size_t comma = values.find(", ");
  schema[values[0] == '[' ? "minimum" : "exclusiveMinimum"] = number(values.substr(1, comma - 1));
  schema[values.back() == ']' ? "maximum" : "exclusiveMaximum"] = number(values.substr(comma + 2));
}

json type_of(const std::string& type) {
  return type == "int" ? "integer" : type == "float" ? "number" : type == "bool" ? "boolean" : "string";
}

// Null stands for 0, "" and an empty list, as the reader takes it.
json or_null(const json& type) {
  return type == "number" || type == "boolean" ? json(type) : json::array({type, "null"});
}

/// One key's: type, bounds, words, default, meaning.
json schema_of(const SpecKey& key) {
  constexpr const char* kOr = ", or ";
  json schema;
  const size_t other = key.values.find(kOr);
  if (key.values.find('|') != std::string::npos) {
    schema["enum"] = words_in(key.values);
  } else if (other != std::string::npos) {
    json number = {{"type", or_null(type_of(key.type))}};
    add_bounds(number, key.values.substr(0, other));
    schema["anyOf"] = {number, {{"const", key.values.substr(other + 5)}}};
  } else if (key.type.starts_with("list of ")) {
    schema = {{"type", json::array({"array", "null"})}, {"items", {{"type", type_of(key.type.substr(8))}}}};
  } else {
    schema["type"] = or_null(type_of(key.type));
    add_bounds(schema, key.values);
  }
  schema["description"] = key.help + (key.preset.empty() ? "" : " Default: " + key.preset + ".");
  return schema;
}

}  // namespace

json object_schema(json properties) {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

json schema_file(const std::string& title, json schema) {
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = title;
  return schema;
}

json run_schema() {
  std::map<std::string, std::map<std::string, json>> sections;
  for (const SpecKey& k : spec_keys()) {
    const size_t dot = k.key.find('.');
    json& place = sections[k.key.substr(0, dot)][k.key.substr(dot + 1)];
    const json own = schema_of(k);
    if (place.is_null())
      place = own;
    else if (place.contains("oneOfKinds"))
      place["oneOfKinds"].push_back(own);
    else
      place = {{"oneOfKinds", {place, own}}};
  }
  json properties = {
      {"inherits",
       {{"type", "string"}, {"description", "A file that is read first, relative to this one."}}}};
  for (auto& [section, keys] : sections) {
    json own = json::object();
    for (auto& [name, schema] : keys)
      own[name] = schema.contains("oneOfKinds") ? json{{"anyOf", schema["oneOfKinds"]}} : schema;
    properties[section] = object_schema(std::move(own));
  }
  // A named net.kind takes its own keys alone.
  json rules = json::array();
  for (const std::string& kind : NetSpec::kinds()) {
    json names = json::array();
    for (const auto& [name, schema] : sections["net"])
      if (name == "kind" || [&] {
            const std::vector<std::string> kinds = net_kinds_with("net." + name);
            return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
          }())
        names.push_back(name);
    const json is = {
        {"properties", {{"net", {{"properties", {{"kind", {{"const", kind}}}}}, {"required", {"kind"}}}}}},
        {"required", {"net"}}};
    rules.push_back(
        {{"if", is}, {"then", {{"properties", {{"net", {{"propertyNames", {{"enum", names}}}}}}}}}});
  }
  json schema = object_schema(std::move(properties));
  schema["allOf"] = rules;
  return schema_file("A run of isobar", std::move(schema));
}

}  // namespace isobar
