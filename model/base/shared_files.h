// Files that other processes write, replace and remove while they are read: what is not there reads as
// nothing. Bounded, and of regular files only, as all reading is (model/base/files.h).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "model/base/json.h"

namespace isobar {

constexpr int64_t kMostOfAWord = 1 << 16;

/// All of it. Throws ConfigError as read_file does, but where there is no such file.
std::optional<std::string> read_if_there(const std::filesystem::path& path, int64_t bytes = most::table);

/// Its JSON; discarded where there is no file or no JSON. Throws ConfigError as read_json does.
nlohmann::json json_if_there(const std::filesystem::path& path);

/// Its first word; "" where there is none.
std::string word_in(const std::filesystem::path& path);

/// Its last bytes, `bytes` at most; "" where there is none, or no file. `whole`: whether these are all.
std::string read_end(const std::filesystem::path& path, int64_t bytes, bool* whole = nullptr);

/// Throws ConfigError(file, key, ...) unless `j` holds a value of that kind at each place, in the words of
/// JSON pointers: {{"/time_s", "number"}, {"/trials", "array"}}. Kinds: those of nlohmann::json's
/// type_name(), and "integer". A place that ends in ? may be absent.
void require_shape(const nlohmann::json& j, const std::string& file,
                   std::initializer_list<std::pair<const char*, const char*>> places,
                   const std::string& mend);

}  // namespace isobar
