#include "model/data/choice/kept.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/hash.h"
#include "model/base/text/json.h"

namespace isobar::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMostStatistics = int64_t{64} << 20;  // bytes of kept statistics
constexpr double kTick_s = 0.1;                         // for filesystems with fractional times
constexpr double kCoarseTick_s = 3;                     // for those with a resolution of one or two seconds
constexpr size_t kBlock = size_t{4} << 20;
constexpr size_t kThreads = 8;  // at most: all ranks of a host check at the same time
constexpr std::string_view kBefore = R"({"sha256":")", kBetween = R"(","value":)", kAfter = "}\n";
constexpr size_t kDigits = 64;

/// The value as text. The digest covers every byte of it, since two texts may be the same number.
std::optional<std::string> value_in(const std::string& text) {
  const size_t begin = kBefore.size() + kDigits + kBetween.size();
  if (text.size() < begin + kAfter.size() || !text.starts_with(kBefore) || !text.ends_with(kAfter) ||
      text.compare(kBefore.size() + kDigits, kBetween.size(), kBetween) != 0)
    return std::nullopt;
  return text.substr(begin, text.size() - begin - kAfter.size());
}

}  // namespace

json identity_of(const fs::path& path, const struct stat& s) {
  return {fs::absolute(path).string(), s.st_ino,         s.st_size,        s.st_mtim.tv_sec,
          s.st_mtim.tv_nsec,           s.st_ctim.tv_sec, s.st_ctim.tv_nsec};
}

bool settled(const struct stat& s) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const double age = static_cast<double>(now.tv_sec - s.st_ctim.tv_sec) +
                     1e-9 * static_cast<double>(now.tv_nsec - s.st_ctim.tv_nsec);
  return age > (s.st_ctim.tv_nsec == 0 ? kCoarseTick_s : kTick_s);
}

void say_made_again(const fs::path& file, const std::string& why, const std::string& made) {
  std::fprintf(stderr, "isobar: %s is damaged (%s): %s again\n", file.c_str(), why.c_str(), made.c_str());
}

std::optional<json> read_kept(const fs::path& file, const std::string& made) {
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return std::nullopt;
  std::string why = "it was cut off, or is none";
  try {
    const std::string text = read_file(file, kMostStatistics);
    if (const auto value = value_in(text)) {
      if (text.substr(kBefore.size(), kDigits) == sha256_hex(*value)) return parse_json(*value);
      why = "its digest is not the one that it was written with";
    }
  } catch (const ConfigError& e) {
    if (!fs::exists(file, unknown)) return std::nullopt;  // another process made room meanwhile
    why = e.what();
  }
  if (!made.empty()) say_made_again(file, why, made);
  return std::nullopt;
}

void write_kept(const fs::path& file, const json& value) {
  const std::string text = json_text(value);
  write_atomically(
      file, std::string(kBefore) + sha256_hex(text) + std::string(kBetween) + text + std::string(kAfter));
}

std::string digest_of_blocks(const void* bytes, size_t count) {
  const auto* const first = static_cast<const char*>(bytes);
  const size_t blocks = (count + kBlock - 1) / kBlock;
  const size_t threads =
      std::clamp<size_t>(std::min<size_t>(blocks, std::thread::hardware_concurrency()), 1, kThreads);
  std::vector<std::string> digests(blocks);
  const auto work = [&](size_t t) {
    for (size_t i = t; i < blocks; i += threads)
      digests[i] = sha256_hex({first + i * kBlock, std::min(kBlock, count - i * kBlock)});
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  std::string joined;
  for (const std::string& d : digests) joined += d;
  return sha256_hex(joined);
}

}  // namespace isobar::data
