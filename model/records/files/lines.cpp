#include "model/records/files/lines.h"

#include <unistd.h>

#include <cerrno>
#include <string>

namespace isobar::records {
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
