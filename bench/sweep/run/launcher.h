// Interface between the runner and the place where trials run. A new launcher (a cluster's scheduler)
// implements it; start() may submit a job instead of starting a process.
//
//   const auto launcher = local_launcher();
//   launcher->start(job);
//   while (!(done = launcher->wait(0.2))) …;     // done->id, done->outcome
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "bench/sweep/run/process.h"

namespace isobar::sweep {

struct LaunchJob {
  std::string id;             // trial id
  std::filesystem::path dir;  // absolute; receives out and err
  std::vector<std::string> command;
  int64_t ranks = 1;  // to request from a scheduler; the command starts the ranks itself
  ProcessLimits limits;
};

/// Command line that starts the trial in `dir`, or resumes it. There is no shell, so the path is one
/// argument, quoted for the YAML that --set parses.
std::vector<std::string> trainer_command(const std::string& trainer, const std::filesystem::path& dir,
                                         int64_t ranks, const std::string& rank_output, bool resume = false);

struct LaunchDone {
  std::string id;
  ProcessOutcome outcome;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Number of jobs that can run at a time.
  virtual int capacity() const = 0;
  /// Ends or adopts jobs that an earlier sweep over `results` left running; returns how many it ended.
  virtual int recover(const std::filesystem::path& results) = 0;
  virtual void start(const LaunchJob& job) = 0;
  /// The next finished job, or nothing after `seconds` or a signal.
  virtual std::optional<LaunchDone> wait(double seconds) = 0;
  /// Asks all jobs to end; wait() still returns them.
  virtual void cancel() = 0;
};

/// Runs one trial at a time on this host, because concurrent trials would disturb each other.
std::unique_ptr<Launcher> local_launcher();

}  // namespace isobar::sweep
