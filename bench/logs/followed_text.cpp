#include "bench/logs/followed_text.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <utility>

namespace isobar::logs {
namespace {

constexpr size_t kMostAtOnce = 16 << 20;  // bytes of a call
constexpr size_t kMostOfALine = 1 << 16;  // bytes; the rest of a line is left out
constexpr size_t kLastWords = 1 << 14;    // bytes kept for the verdict
constexpr double kTick_s = 0.01;          // the longest of a kernel's clock (CONFIG_HZ=100)

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// When a file's last bytes were written, by its time and this one: files bear the time of the kernel's last
// tick. A clock ahead of ours is another machine's.
double end_of_tick(double written) {
  return std::max(written, std::min(now(), written + kTick_s));
}

}  // namespace

double written_at(const std::filesystem::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) != 0) return 0;
  return static_cast<double>(s.st_mtim.tv_sec) + 1e-9 * static_cast<double>(s.st_mtim.tv_nsec);
}

int64_t FollowedText::size() const {
  std::error_code error;
  const auto n = std::filesystem::file_size(file_, error);
  return error ? 0 : static_cast<int64_t>(n);
}

void FollowedText::split(std::string_view some, double written, const Use& use) {
  last_.append(some.substr(some.size() - std::min(some.size(), kLastWords)));
  if (last_.size() > 2 * kLastWords) last_.erase(0, last_.size() - kLastWords);
  while (!some.empty()) {
    const size_t end = some.find_first_of("\n\r");
    const std::string_view piece = some.substr(0, end);
    part_.append(piece.substr(0, kMostOfALine - std::min(kMostOfALine, part_.size())));
    if (end == std::string_view::npos) return;
    if (!part_.empty()) use(std::exchange(part_, ""), written);
    some.remove_prefix(end + 1);
  }
}

bool FollowedText::read(const Use& use) {
  const double written = end_of_tick(written_at(file_));
  std::ifstream in(file_, std::ios::binary);
  in.seekg(read_);
  std::array<char, 1 << 16> some;
  size_t n = 0;
  while (n < kMostAtOnce && (in.read(some.data(), some.size()), in.gcount() > 0)) {
    n += static_cast<size_t>(in.gcount());
    split({some.data(), static_cast<size_t>(in.gcount())}, written, use);
  }
  read_ += static_cast<int64_t>(n);
  return n > 0;
}

void FollowedText::end(const Use& use) {
  while (read(use)) {
  }
  if (!part_.empty()) use(std::exchange(part_, ""), end_of_tick(written_at(file_)));
}

}  // namespace isobar::logs
