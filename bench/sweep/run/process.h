// A supervised command: started without a shell, output in files, stopped when it exceeds its time or memory
// or makes no progress, and never left running.
//
// A small supervisor (a forked session leader) sits between this process and the command. As subreaper it can
// end every descendant, whatever process group or session it chose; and it ends them when this process dies,
// which closes a pipe that only this process holds.
//
//   WatchedProcess p({.argv = {"/usr/bin/true"}, .out = "out", .err = "err"});
//   while (!p.wait(0.2)) …;
//   p.outcome().end == ProcessEnd::exited
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace isobar::sweep {

struct ProcessLimits {
  double timeout_s = 0;      // wall clock; 0 = none
  double hang_s = 0;         // without a change of any progress file; 0 = no limit
  double grace_s = 5;        // from SIGTERM to SIGKILL
  int64_t memory_bytes = 0;  // resident private memory of the process tree; 0 = no limit
};

struct ProcessJob {
  std::vector<std::string> argv;                              // argv[0] is the path of the executable
  std::vector<std::pair<std::string, std::string>> env = {};  // added to the environment
  std::filesystem::path out, err;
  std::vector<std::filesystem::path> progress_files = {};  // a change of size or time counts as progress
  ProcessLimits limits = {};
};

enum class ProcessEnd : int32_t {
  exited,     // code = exit code
  signalled,  // code = signal from outside or from the program itself
  timeout,    // stopped by the supervisor …
  hang,
  memory,
  cancelled,    // … on request
  not_started,  // code = errno
  lost,         // the supervisor itself was killed
};

struct ProcessOutcome {  // trivially copyable: sent through a pipe
  ProcessEnd end = ProcessEnd::lost;
  int32_t code = 0;
  int32_t strays = 0;     // descendants that outlived the command
  int32_t oom_kills = 0;  // OOM kills on this host meanwhile
  double wall_s = 0;
  int64_t max_rss_bytes = 0;       // largest single process
  int64_t peak_private_bytes = 0;  // of the process tree; 0 unless memory is limited
};

class WatchedProcess {
 public:
  explicit WatchedProcess(const ProcessJob& job);  // throws std::system_error if fork fails
  ~WatchedProcess();                               // kills what still runs
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;

  /// True once it has ended. Returns before `seconds` have passed if the descriptor `wakes` can be read.
  bool wait(double seconds, int wakes = -1);
  void cancel();  // SIGTERM, then SIGKILL after the grace period
  /// Sends SIGUSR1 to the command alone; launchers forward it to their ranks and wait
  /// (model/engine/liveness/signals.h).
  void notify();
  const ProcessOutcome& outcome() const { return outcome_; }
  pid_t supervisor() const { return supervisor_; }

 private:
  void tell(char byte);
  pid_t supervisor_ = -1;
  int control_ = -1, report_ = -1;
  bool ended_ = false;
  ProcessOutcome outcome_;
};

/// Kills every process of this user whose environment contains exactly `entry` ("NAME=value"), and returns
/// their number. A list of process ids could be incomplete or name reused ids.
int kill_tagged(const std::string& entry);

}  // namespace isobar::sweep
