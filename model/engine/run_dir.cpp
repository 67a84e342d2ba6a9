#include "model/engine/run_dir.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "model/base/error.h"
#include "model/base/shared_files.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The processes of a run that was killed need a moment to go.
constexpr double kWait = 10;  // seconds

std::string event_of(const json& line) {
  if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) return "";
  return line["event"];
}

/// What there is to lose: the words for the first step or checkpoint that is found, or "".
std::string holds(const fs::path& out) {
  if (fs::is_directory(out / "checkpoints") && !fs::is_empty(out / "checkpoints"))
    return "checkpoints of a training";
  std::istringstream in(read_if_there(out / "result.jsonl", most::lines).value_or(""));
  for (std::string line; std::getline(in, line);)
    if (const std::string event = event_of(parse_json(line)); event == "step" || event == "checkpoint")
      return "the results of a training";
  return "";
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
  // dir/checkpoints/step-00000100, however it was spelled
  const fs::path home = from.empty() ? fs::path() : fs::canonical(from).parent_path();
  goes_on_ = !from.empty() && home == fs::canonical(out) / "checkpoints";
  if (!goes_on_) {
    const std::string there = holds(out);
    if (there.empty()) return;
    const bool any = fs::exists(out / "checkpoints");
    throw ConfigError(out.string(), "run.out",
                      "holds " + there + " already, which another must not be mixed with",
                      std::string(any ? "go on with it by --resume " + out.string() + ", or " : "") +
                          "give this one a run.out of its own");
  }
  for (const auto& entry : fs::directory_iterator(home))
    if (entry.path().extension() != ".tmp" && entry.path().filename() > fs::canonical(from).filename())
      throw ConfigError(
          from.string(), "--resume",
          "is not the last checkpoint of run.out: " + entry.path().filename().string() +
              " is there, and a training from here comes past it with weights of its own",
          "give this branch a run.out of its own, or resume the last one by --resume " + out.string());
}

json RunDir::ended() const {
  if (out_.empty() || !fs::exists(out_ / "result.jsonl")) return nullptr;
  std::string text = read_end(out_ / "result.jsonl", most::table);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  json last = parse_json(text.substr(text.rfind('\n') + 1));
  if (event_of(last) != "run_end" || last.value("status", json()) != "ok") return nullptr;
  return last;
}

void RunDir::keep_trace(int64_t step) const {
  if (out_.empty() || !fs::exists(out_ / "trace.json")) return;
  std::string name = "trace-before-" + std::to_string(step);
  for (int n = 2; fs::exists(out_ / (name + ".json")); ++n)
    name = "trace-before-" + std::to_string(step) + "-" + std::to_string(n);
  fs::rename(out_ / "trace.json", out_ / (name + ".json"));
}

}  // namespace isobar
