#include "model/base/names/checkpoint_names.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-", kAside = ".damaged";
constexpr size_t kLongestNumber = 18;  // digits: what int64_t holds for certain

/// Digits alone behind "step-": the step, else -1.
int64_t step_in(const std::string& name) {
  if (!name.starts_with(kStep)) return -1;
  const std::string digits = name.substr(kStep.size());
  const bool number = !digits.empty() && digits.size() <= kLongestNumber &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoll(digits) : -1;
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

int64_t step_named(const fs::path& checkpoint) {
  std::error_code none;  // `best` is a link to one that has a step in its name
  const fs::path whole = fs::weakly_canonical(checkpoint, none);
  return step_in((whole.has_filename() ? whole : whole.parent_path()).filename().string());
}

std::vector<fs::path> checkpoints_of(const fs::path& run_dir) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints", none)) {
    const int64_t step = step_in(entry.path().filename().string());
    if (step >= 0 && !entry.is_symlink(none) && fs::exists(entry.path() / "state.json", none))
      found.emplace_back(step, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> out;
  for (auto& [step, path] : found) out.push_back(std::move(path));
  return out;
}

fs::path name_set_aside(const fs::path& checkpoint) {
  const fs::path plain = checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();
  const std::string stem = plain.string() + std::string(kAside);
  fs::path to = stem;
  for (int n = 2; fs::exists(fs::symlink_status(to)); ++n) to = stem + "-" + std::to_string(n);
  return to;
}

bool any_set_aside(const fs::path& run_dir) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints", none))
    if (entry.path().filename().string().find(kAside) != std::string::npos) return true;
  return false;
}

bool was_set_aside(const fs::path& run_dir, int64_t step) {
  std::error_code none;
  return fs::exists(run_dir / "checkpoints" / (checkpoint_name(step) + std::string(kAside)), none);
}

}  // namespace isobar
