// Reads and writes result.jsonl, which another process may be writing. An incomplete last line is ignored;
// other invalid lines are reported in `problems` and never throw.
//
//   std::vector<std::string> problems;
//   for_each_record("run/result.jsonl", &problems, [&](const Record& r) { … });
//   for_each_from_end("run/result.jsonl", 1 << 20, [&](const Record& r) { return !ends(r); });
//
// Lines of a file that may be anything, a window at a time: a line without end takes no more memory than the
// longest that is read.
//
//   for_each_line(InputFile("result.jsonl"), 0, [&](std::string_view line, LineEnd end) { … });
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/system/files.h"
#include "model/records/records.h"

namespace isobar::records {

/// A record as one line without line break. Invalid UTF-8 is replaced.
std::string line_of(const Record& r);

/// Reads all records in order. `problems` may be null. Throws ConfigError if the file is missing or
/// unreadable.
void for_each_record(const std::filesystem::path& file, std::vector<std::string>* problems,
                     const std::function<void(const Record&)>& use);

/// Reads complete lines from byte `from` on; returns the offset to continue from. Without a file there are
/// none.
int64_t for_each_new(const std::filesystem::path& file, int64_t from,
                     const std::function<void(const Record&)>& use);

/// Reads records in the last `bytes` of the file, newest first, until `use` returns false; none without a
/// file.
void for_each_from_end(const std::filesystem::path& file, int64_t bytes,
                       const std::function<bool(const Record&)>& use);

constexpr int64_t kLongestLine = int64_t{16} << 20;  // bytes; JSON takes up to 25 times as much memory

enum class LineEnd : uint8_t {
  whole,     // ends with \n, which is left out
  torn,      // the file's last, without \n
  too_long,  // longer than kLongestLine: its beginning
};

/// The lines from byte `from` on. Returns the byte behind the last \n.
int64_t for_each_line(const InputFile& file, int64_t from,
                      const std::function<void(std::string_view, LineEnd)>& use);

}  // namespace isobar::records
