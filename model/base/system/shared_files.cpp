#include "model/base/system/shared_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The result of `read`; nothing where the file does not exist, or is removed while it is read.
template <class T>
std::optional<T> if_there(const fs::path& path, const std::function<T()>& read) {
  std::error_code unknown;
  const auto gone = [&] { return fs::status(path, unknown).type() == fs::file_type::not_found; };
  if (gone()) return std::nullopt;
  try {
    return read();
  } catch (const ConfigError&) {
    if (gone()) return std::nullopt;
    throw;
  }
}

bool is_kind(const json& j, const std::string& kind) {
  return kind == "integer" ? j.is_number_integer() : j.type_name() == kind;
}

}  // namespace

std::optional<std::string> read_if_there(const fs::path& path, int64_t bytes) {
  return if_there<std::string>(path, [&] { return read_file(path, bytes); });
}

json json_if_there(const fs::path& path) {
  return if_there<json>(path, [&] { return read_json(path); }).value_or(json::value_t::discarded);
}

std::string word_in(const fs::path& path) {
  const std::string text = read_if_there(path, kMostOfAWord).value_or("");
  const char* const kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, std::min(text.find_first_of(kSpace, begin), text.size()) - begin);
}

std::string read_end(const fs::path& path, int64_t bytes, bool* whole) {
  const auto read = [&] {
    const InputFile file(path);
    int64_t at = std::max<int64_t>(0, file.size() - bytes);
    if (whole) *whole = at == 0;
    std::string out(static_cast<size_t>(file.size() - at), '\0');
    size_t have = 0;
    while (have < out.size()) {
      const ssize_t n = ::pread(file.fd(), out.data() + have, out.size() - have,
                                static_cast<off_t>(at + static_cast<int64_t>(have)));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;  // truncated meanwhile
      have += static_cast<size_t>(n);
    }
    out.resize(have);
    return out;
  };
  return if_there<std::string>(path, read).value_or("");
}

void require_shape(const json& j, const std::string& file,
                   std::initializer_list<std::pair<const char*, const char*>> places,
                   const std::string& mend) {
  if (!j.is_object() && !j.is_array()) throw ConfigError(file, "line 1", "is no JSON object", mend);
  for (const auto& [place, kind] : places) {
    std::string name = place;
    const bool optional = name.ends_with('?');
    if (optional) name.pop_back();
    const json::json_pointer at(name);
    if (!j.contains(at)) {
      if (optional) continue;
      throw ConfigError(file, name.substr(1), "is not there", mend);
    }
    if (!is_kind(j.at(at), kind)) throw ConfigError(file, name.substr(1), std::string("is no ") + kind, mend);
  }
}

}  // namespace isobar
