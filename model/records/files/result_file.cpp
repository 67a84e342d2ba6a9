#include "model/records/files/result_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "model/base/system/files.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"

namespace isobar::records {

std::string line_of(const Record& r) {
  return to_json(r).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void for_each_record(const std::filesystem::path& file, std::vector<std::string>* problems,
                     const std::function<void(const Record&)>& use) {
  std::vector<std::string> unheard;
  Place place{file.string(), 0, problems ? problems : &unheard};
  const auto ignored = [&](const std::string& why) {
    place.problems->push_back(place.file + ":" + std::to_string(place.line) + ": " + why + ", ignored");
  };
  for_each_line(InputFile(file), 0, [&](std::string_view line, LineEnd end) {
    ++place.line;
    if (end == LineEnd::too_long) return ignored("is longer than any event");
    const nlohmann::json j = parse_json(line);
    if (j.is_object() && j.contains("event") && j["event"].is_string())
      use(record_from_json(j, place));
    else if (!line.empty() && end == LineEnd::whole)
      ignored("is no event");
  });
}

int64_t for_each_new(const std::filesystem::path& file, int64_t from,
                     const std::function<void(const Record&)>& use) {
  std::error_code none;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, none));
  if (none || size <= from) return from;
  std::vector<std::string> unheard;
  return for_each_line(InputFile(file), from, [&](std::string_view line, LineEnd end) {
    if (end != LineEnd::whole) return;
    const nlohmann::json j = parse_json(line);
    if (j.is_object()) use(record_from_json(j, {file.string(), 0, &unheard}));
  });
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
    const bool bounded = static_cast<int64_t>(end - begin) <= kLongestLine;
    const nlohmann::json j =
        bounded ? parse_json(std::string_view(text).substr(begin, end - begin)) : nlohmann::json();
    if (j.is_object() && !use(record_from_json(j, {file.string(), 0, &unheard}))) return;
    end = before;
  }
}

namespace {

constexpr size_t kWindow = 1 << 20;

/// Appends what comes next; false at the end of the file, or where it cannot be read further.
bool read_on(const InputFile& file, int64_t at, std::string& to) {
  const size_t have = to.size();
  to.resize(have + kWindow);
  ssize_t n = 0;
  while ((n = ::pread(file.fd(), to.data() + have, kWindow, static_cast<off_t>(at))) < 0 && errno == EINTR) {
  }
  to.resize(have + static_cast<size_t>(n > 0 ? n : 0));
  return n > 0;
}

}  // namespace

int64_t for_each_line(const InputFile& file, int64_t from,
                      const std::function<void(std::string_view, LineEnd)>& use) {
  std::string held;       // what was read and not used yet
  bool skipping = false;  // the rest of a line that was too long
  int64_t at = from, behind = from;
  for (size_t searched = 0; read_on(file, at, held); searched = held.size()) {
    at += static_cast<int64_t>(held.size() - searched);
    size_t begin = 0, end = held.find('\n', searched);
    for (; end != std::string::npos; begin = end + 1, end = held.find('\n', begin)) {
      if (!skipping) use(std::string_view(held).substr(begin, end - begin), LineEnd::whole);
      skipping = false;
    }
    held.erase(0, begin);
    if (begin > 0) behind = at - static_cast<int64_t>(held.size());
    if (!skipping && static_cast<int64_t>(held.size()) <= kLongestLine) continue;
    if (!skipping) use(std::string_view(held).substr(0, kLongestLine), LineEnd::too_long);
    skipping = true;
    held.clear();
  }
  if (!held.empty()) use(held, LineEnd::torn);
  return behind;
}

}  // namespace isobar::records
