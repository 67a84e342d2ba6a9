#include "model/base/text/json.h"

#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace isobar {

std::string json_text(const nlohmann::json& j, int indent) {
  return j.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_excess(std::string_view text, int64_t values) {
  int64_t depth = 0, deepest = 0, count = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++count;
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++count;
    }
  }
  if (deepest > kJsonDepth) return "is nested more than " + std::to_string(kJsonDepth) + " levels deep";
  if (count > values) return "holds more than " + std::to_string(values) + " values";
  return "";
}

namespace {

/// The parser takes a NUL for the end of the text, and would ignore all that follows.
nlohmann::json parse_all(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  if (!json_excess(text).empty()) return nlohmann::json::value_t::discarded;
  return parse_all(text);
}

nlohmann::json read_json(const std::filesystem::path& file, int64_t bytes, int64_t values) {
  const std::string text = read_file(file, bytes);
  if (const std::string excess = json_excess(text, values); !excess.empty())
    throw ConfigError(file.string(), "line 1", excess, "check that it is the file that you mean");
  return parse_all(text);
}

std::string text_in(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

nlohmann::json object_in(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_object() ? *it : nlohmann::json::object();
}

}  // namespace isobar
