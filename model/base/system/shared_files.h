// Files that other processes write, replace and remove while they are read: a missing file reads as empty.
// Reading is bounded and of regular files only, as everywhere (model/base/system/files.h).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "model/base/text/json.h"

namespace isobar {

constexpr int64_t kMostOfAWord = 1 << 16;

/// The whole file. Throws ConfigError as read_file does, except where the file does not exist.
std::optional<std::string> read_if_there(const std::filesystem::path& path, int64_t bytes = most::table);

/// Its JSON; discarded where there is no file or no JSON. Throws ConfigError as read_json does.
nlohmann::json json_if_there(const std::filesystem::path& path);

/// Its first word; "" where there is none.
std::string word_in(const std::filesystem::path& path);

/// Its last bytes, `bytes` at most; "" where there is none, or no file. `whole`: whether these are all.
std::string read_end(const std::filesystem::path& path, int64_t bytes, bool* whole = nullptr);

/// Throws ConfigError(file, key, ...) unless `j` holds a value of the given kind at each JSON pointer:
/// {{"/time_s", "number"}, {"/trials", "array"}}. Kinds are those of nlohmann::json's type_name(), and
/// "integer". A pointer that ends in ? may be absent.
void require_shape(const nlohmann::json& j, const std::string& file,
                   std::initializer_list<std::pair<const char*, const char*>> places,
                   const std::string& mend);

}  // namespace isobar
