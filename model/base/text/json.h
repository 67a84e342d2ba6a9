// JSON of bounded depth and number of values. The parser follows any depth, but copying, comparing and
// printing its result recurse once a level, and a value takes up to 90 bytes of memory for each byte of text.
//
//   nlohmann::json j = read_json("status.json");      // discarded where the text is no JSON
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/base/system/files.h"

namespace isobar {

constexpr int64_t kJsonDepth = 64;
constexpr int64_t kJsonValues = 4'000'000;

/// As text, on one line or indented. Bytes that are no UTF-8, as of a file's name, become U+FFFD: dump() by
/// itself throws.
std::string json_text(const nlohmann::json& j, int indent = -1);

/// The bound that a text exceeds ("is nested more than 64 levels deep"), or "". Cheap: parses nothing.
std::string json_excess(std::string_view text, int64_t values = kJsonValues);

/// Discarded for text that is no JSON or exceeds the bounds.
nlohmann::json parse_json(std::string_view text);

/// JSON of a file, discarded for text that is no JSON. Throws ConfigError when the file cannot be read or
/// exceeds a bound.
nlohmann::json read_json(const std::filesystem::path& file, int64_t bytes = most::table,
                         int64_t values = kJsonValues);

/// A member of an object that another program may have written: "" and {} where it is missing or of another
/// type.
std::string text_in(const nlohmann::json& j, const char* key);
nlohmann::json object_in(const nlohmann::json& j, const char* key);

}  // namespace isobar
