#include "model/records/result_file.h"

#include <algorithm>

#include "model/base/files.h"
#include "model/base/json.h"
#include "model/base/shared_files.h"

namespace isobar {

std::string line_of(const Record& r) {
  return to_json(r).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void for_each_record(const std::filesystem::path& file, std::vector<std::string>* problems,
                     const std::function<void(const Record&)>& use) {
  std::vector<std::string> unheard;
  Place place{file.string(), 0, problems ? problems : &unheard};
  const std::string text = read_file(file);
  for (size_t begin = 0; begin < text.size();) {
    ++place.line;
    const size_t end = std::min(text.find('\n', begin), text.size());
    const nlohmann::json j = parse_json(std::string_view(text).substr(begin, end - begin));
    const bool torn = end == text.size();
    if (j.is_object() && j.contains("event") && j["event"].is_string())
      use(record_from_json(j, place));
    else if (end > begin && !torn)
      place.problems->push_back(place.file + ":" + std::to_string(place.line) + ": is no event, ignored");
    begin = end + 1;
  }
}

int64_t for_each_new(const std::filesystem::path& file, int64_t from,
                     const std::function<void(const Record&)>& use) {
  std::error_code none;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, none));
  if (none || size <= from) return from;
  const std::string text = read_end(file, size - from);
  const size_t whole = text.rfind('\n');
  if (whole == std::string::npos) return from;
  std::vector<std::string> unheard;
  for (size_t begin = 0; begin <= whole;) {
    const size_t end = text.find('\n', begin);
    const nlohmann::json j = parse_json(std::string_view(text).substr(begin, end - begin));
    if (j.is_object()) use(record_from_json(j, {file.string(), 0, &unheard}));
    begin = end + 1;
  }
  return from + static_cast<int64_t>(whole) + 1;
}

void for_each_from_end(const std::filesystem::path& file, int64_t bytes,
                       const std::function<bool(const Record&)>& use) {
  bool whole = true;
  const std::string text = read_end(file, bytes, &whole);
  std::vector<std::string> unheard;  // reported by for_each_record
  for (size_t end = text.rfind('\n'); end != std::string::npos && end > 0;) {
    const size_t before = text.rfind('\n', end - 1);
    if (before == std::string::npos && !whole) return;  // the line's beginning was not read
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const nlohmann::json j = parse_json(std::string_view(text).substr(begin, end - begin));
    if (j.is_object() && !use(record_from_json(j, {file.string(), 0, &unheard}))) return;
    end = before;
  }
}

}  // namespace isobar
