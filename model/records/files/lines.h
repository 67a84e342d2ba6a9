// Lines of a file that may be anything, a window at a time: a line without end takes no more memory than the
// longest that is read.
//
//   for_each_line(InputFile("result.jsonl"), 0, [&](std::string_view line, LineEnd end) { … });
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "model/base/system/files.h"

namespace isobar::records {

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
