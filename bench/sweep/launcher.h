// Where trials run. The runner knows only this interface: one more launcher (a cluster's scheduler) is one
// more implementation, and start() may as well submit a job as start a process.
//
//   LocalLauncher launcher;
//   launcher.start(job);
//   while (!(done = launcher.wait(0.2))) …;      // done->id, done->outcome
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "bench/sweep/process.h"

namespace isobar {

struct LaunchJob {
  std::string id;             // of the trial
  std::filesystem::path dir;  // its directory, absolute; out and err are written there
  std::vector<std::string> command;
  int64_t ranks = 1;  // what a scheduler has to ask for; the command starts them itself
  ProcessLimits limits;
};

/// What runs a trial that lies in `dir`, or goes on with it (`resume`). `rank_output`: of `isobar train
/// --rank-output`. No shell anywhere: the path is one argument, quoted for the YAML that --set reads.
std::vector<std::string> trainer_command(const std::string& trainer, const std::filesystem::path& dir,
                                         int64_t ranks, const std::string& rank_output, bool resume = false);

struct LaunchDone {
  std::string id;
  ProcessOutcome outcome;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// How many jobs may be under way at a time.
  virtual int capacity() const = 0;
  /// Ends (or takes up again) what an earlier sweep over `results` left running; returns how many it ended.
  virtual int recover(const std::filesystem::path& results) = 0;
  virtual void start(const LaunchJob& job) = 0;
  /// The next job that ended, or nothing after `seconds` (or a signal).
  virtual std::optional<LaunchDone> wait(double seconds) = 0;
  /// Asks all jobs to end; they still come out of wait().
  virtual void cancel() = 0;
};

/// Runs one trial at a time on this host: trials that share the machine would measure each other.
class LocalLauncher : public Launcher {
 public:
  int capacity() const override { return 1; }
  int recover(const std::filesystem::path& results) override;
  void start(const LaunchJob& job) override;
  std::optional<LaunchDone> wait(double seconds) override;
  void cancel() override;

 private:
  std::string id_, tag_;
  std::unique_ptr<WatchedProcess> process_;
};

}  // namespace isobar
