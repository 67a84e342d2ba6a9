#include "bench/cli/train/run_name.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "model/base/error.h"

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNumber = "{n}";
constexpr const char* kName = "{name}";

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

/// Highest number that an entry of `folder` has between `before` and `after`; 0: none has.
int64_t highest(const fs::path& folder, const std::string& before, const std::string& after) {
  int64_t most = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
      continue;
    const char *begin = name.data() + before.size(), *end = name.data() + name.size() - after.size();
    int64_t n = 0;
    const auto [at, error] = std::from_chars(begin, end, n);
    if (error == std::errc() && at == end) most = std::max(most, n);
  }
  return most;
}

/// False where it exists already.
bool makes(const fs::path& dir) {
  std::error_code error;
  if (fs::create_directory(dir, error)) return true;
  if (error)
    throw ConfigError(dir.string(), "run.out", "cannot be made: " + error.message(),
                      "name another directory");
  return false;
}

std::string made(const fs::path& folder, const std::string& before, const std::string& after, int64_t least) {
  if (!folder.empty()) fs::create_directories(folder);
  for (int64_t n = std::max(least, highest(folder.empty() ? "." : folder, before, after) + 1);; ++n)
    if (const fs::path dir = folder / (before + std::to_string(n) + after); makes(dir)) return dir.string();
}

}  // namespace

bool names_a_pattern(const std::string& out) {
  return out.find(kNumber) != std::string::npos || out.find(kName) != std::string::npos;
}

void require_pattern(const RunSpec& spec) {
  const std::string& out = spec.run.out;
  if (!names_a_pattern(out)) return;
  const size_t number = out.find(kNumber);
  if (number == std::string::npos) return;
  if (out.find('/', number) != std::string::npos || out.find(kNumber, number + 1) != std::string::npos)
    throw ConfigError(spec.file, "run.out", "is " + out + ", and a run has one number, in its last part",
                      "e.g. runs/{name}-{n}");
}

RunFolder::RunFolder(const std::string& out, const std::string& name, bool beside) {
  std::string named = out;
  replace_all(named, kName, name);
  const fs::path whole = named;
  const std::string last = whole.filename().string();
  if (const size_t at = last.find(kNumber); at != std::string::npos) {
    path_ = made(whole.parent_path(), last.substr(0, at), last.substr(at + 3), 1);
    return;
  }
  if (!whole.parent_path().empty()) fs::create_directories(whole.parent_path());
  path_ = !beside || makes(whole) ? named : made(whole.parent_path(), last + "-", "", 2);
}

RunFolder::~RunFolder() {
  std::error_code none;  // a run that was refused before it began
  if (fs::exists(path_ + "/lock", none) && ++fs::directory_iterator(path_, none) == fs::directory_iterator())
    fs::remove(path_ + "/lock", none);
  fs::remove(path_, none);
}

std::string run_resumed(const std::string& resume) {
  const fs::path whole = fs::path(resume).lexically_normal(),
                 path = whole.has_filename() ? whole : whole.parent_path();  // a slash behind it
  return (path.parent_path().filename() == "checkpoints" ? path.parent_path().parent_path() : path).string();
}

}  // namespace isobar::cli
