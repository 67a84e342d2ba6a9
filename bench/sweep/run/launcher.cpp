#include "bench/sweep/run/launcher.h"

#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "model/base/error.h"

namespace isobar::sweep {
namespace {

constexpr const char* kTag = "ISOBAR_SWEEP";

// Tag in the environment of every process of a sweep, which children inherit. It includes the directory's
// inode, so that a recreated directory does not own processes of the old one.
std::string tag_of(const std::filesystem::path& results) {
  struct stat s {};
  if (::stat(results.c_str(), &s) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot read " + results.string());
  return std::filesystem::canonical(results).string() + "#" + std::to_string(s.st_dev) + "." +
         std::to_string(s.st_ino);
}

/// As --set takes it. A configuration holds UTF-8 alone.
std::string quoted(const std::filesystem::path& dir) {
  try {
    return nlohmann::json(dir.string()).dump();
  } catch (const nlohmann::json::type_error&) {
    throw ConfigError(dir.string(), "--results", "holds bytes that are no UTF-8", "name another folder");
  }
}

}  // namespace

std::vector<std::string> trainer_command(const std::string& trainer, const std::filesystem::path& dir,
                                         int64_t ranks, const std::string& rank_output, bool resume) {
  std::vector<std::string> words = {trainer,
                                    "train",
                                    (dir / "config.yaml").string(),
                                    "--ranks",
                                    std::to_string(ranks),
                                    "--set",
                                    "run.out=" + quoted(dir)};
  if (rank_output != "first") words.insert(words.end(), {"--rank-output", rank_output});
  if (resume) words.insert(words.end(), {"--resume", dir.string(), "--set-aside-damaged"});
  return words;
}

namespace {

/// Runs one trial at a time on this host, because concurrent trials would disturb each other.
class LocalLauncher : public Launcher {
 public:
  int capacity() const override { return 1; }
  int recover(const std::filesystem::path& results) override {
    return kill_tagged(std::string(kTag) + "=" + tag_of(results));
  }
  void start(const LaunchJob& job) override {
    if (process_) throw std::logic_error("LocalLauncher runs one trial at a time");
    const std::filesystem::path results = job.dir.parent_path().parent_path();  // DIR/trials/<id>
    tag_ = tag_of(results);
    process_ = std::make_unique<WatchedProcess>(
        ProcessJob{.argv = job.command,
                   .env = {{kTag, tag_}, {"ISOBAR_TRIAL", job.id}},
                   .out = job.dir / "out",
                   .err = job.dir / "err",
                   .progress_files = {job.dir / "result.jsonl", job.dir / "heartbeat"},
                   .limits = job.limits});
    id_ = job.id;
  }
  std::optional<LaunchDone> wait(double seconds) override {
    if (!process_ || !process_->wait(seconds)) return std::nullopt;
    const LaunchDone done{id_, process_->outcome()};
    process_.reset();
    // If the supervisor was lost, ranks in process groups of their own may still run.
    if (done.outcome.end == ProcessEnd::lost) kill_tagged(std::string(kTag) + "=" + tag_);
    return done;
  }
  void cancel() override {
    if (process_) process_->cancel();
  }

 private:
  std::string id_, tag_;
  std::unique_ptr<WatchedProcess> process_;
};

}  // namespace

std::unique_ptr<Launcher> local_launcher() {
  return std::make_unique<LocalLauncher>();
}

}  // namespace isobar::sweep
