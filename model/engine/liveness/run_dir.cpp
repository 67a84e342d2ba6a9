#include "model/engine/liveness/run_dir.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/inference/weights/open_checkpoint.h"
#include "model/records/files/result_file.h"

namespace isobar::engine {
namespace {

namespace fs = std::filesystem;

// Processes of a killed run need a moment to end.
constexpr double kWait = 10;  // seconds

/// Describes the first step or checkpoint found, which could be lost; "" where there is none.
std::string holds(const fs::path& out) {
  if (fs::is_directory(out / "checkpoints") && !fs::is_empty(out / "checkpoints"))
    return "checkpoints of a training";
  bool any = false;
  if (fs::exists(out / "result.jsonl"))
    records::for_each_record(out / "result.jsonl", nullptr, [&](const records::Record& r) {
      any = any || std::holds_alternative<records::StepRecord>(r) ||
            std::holds_alternative<records::CheckpointRecord>(r);
    });
  return any ? "the results of a training" : "";
}

/// Entries with the name of a checkpoint later than this one, whole or not, latest first.
std::vector<fs::path> later_than(const fs::path& checkpoint) {
  const fs::path own = fs::canonical(checkpoint);
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const auto& entry : fs::directory_iterator(own.parent_path()))
    if (const int64_t step = step_named(entry.path()); !entry.is_symlink() && step > step_named(own))
      found.emplace_back(step, entry.path());
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> out;
  for (auto& [step, path] : found) out.push_back(std::move(path));
  return out;
}

FileLock owned(const fs::path& out) {
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed)
    throw ConfigError(out.string(), "run.out", "cannot be made: " + failed.message(),
                      "name another directory");
  try {
    FileLock lock(out / "lock", kWait);
    if (lock.held()) return lock;
  } catch (const std::system_error& e) {
    throw ConfigError((out / "lock").string(), "run.out", "cannot be locked: " + e.code().message(),
                      "name a directory that can be written, on a filesystem with flock(2)");
  }
  throw ConfigError(out.string(), "run.out", "is in use by another training",
                    "wait for it, stop it, or give this one a run.out of its own");
}

}  // namespace

RunDir::RunDir(fs::path out) : out_(std::move(out)) {
  if (!out_.empty() && fs::exists(out_)) lock_ = owned(out_);
}

void RunDir::claim(const fs::path& from) {
  const fs::path& out = out_;
  if (out.empty()) return;
  if (!lock_.held()) lock_ = owned(out);
  // dir/checkpoints/step-00000100, however its path was written
  const fs::path home = from.empty() ? fs::path() : fs::canonical(from).parent_path();
  goes_on_ = !from.empty() && home == fs::canonical(out) / "checkpoints";
  if (!goes_on_) {
    const std::string there = holds(out);
    if (there.empty()) return;
    const bool any = !checkpoints_of(out).empty();
    throw ConfigError(out.string(), "run.out",
                      "holds " + there + " already, which another must not be mixed with",
                      std::string(any ? "go on with it by --resume " + out.string() + ", or " : "") +
                          "give this one a run.out of its own");
  }
  for (const fs::path& later : later_than(from)) {
    if (const auto why = inference::damage_of(later)) {
      inference::set_aside(later, *why);
      continue;
    }
    throw ConfigError(
        from.string(), "--resume",
        "is not the last checkpoint of run.out: " + later.filename().string() +
            " is there, and a training from here comes past it with weights of its own",
        "give this branch a run.out of its own, or resume the last one by --resume " + out.string());
  }
}

std::optional<records::EndRecord> RunDir::ended() const {
  std::optional<records::EndRecord> last;
  if (out_.empty()) return last;
  records::for_each_from_end(out_ / "result.jsonl", most::table, [&](const records::Record& r) {
    if (const auto* end = std::get_if<records::EndRecord>(&r); end && end->ok()) last = *end;
    return false;  // only the last line can end a training that has not continued
  });
  return last;
}

void RunDir::keep_trace(int64_t step) const {
  if (out_.empty() || !fs::exists(out_ / "trace.json")) return;
  std::string name = "trace-before-" + std::to_string(step);
  for (int n = 2; fs::exists(out_ / (name + ".json")); ++n)
    name = "trace-before-" + std::to_string(step) + "-" + std::to_string(n);
  fs::rename(out_ / "trace.json", out_ / (name + ".json"));
}

}  // namespace isobar::engine
