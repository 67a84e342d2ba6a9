// One command, watched: started without a shell, with its output in files, stopped when it runs too long,
// makes no progress or takes too much memory, and never left behind.
//
// Between this process and the command stands a small supervisor (a fork of this process in a session of its
// own). It is the reaper of everything that the command starts, whatever process group or session that chose,
// so it can end all of it; and it watches a pipe whose other end only this process holds, so it does the same
// when this process is killed.
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

namespace isobar {

struct ProcessLimits {
  double timeout_s = 0;      // wall clock; 0 = none
  double hang_s = 0;         // without a change of any progress file; 0 = none
  double grace_s = 5;        // from SIGTERM to SIGKILL
  int64_t memory_bytes = 0;  // resident private memory of the whole tree; 0 = none
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
  signalled,  // code = signal that somebody else sent, or that the program raised
  timeout,    // stopped by the supervisor …
  hang,
  memory,
  cancelled,    // … on request
  not_started,  // code = errno
  lost,         // the supervisor itself was killed
};

struct ProcessOutcome {  // plain bytes: it travels through a pipe
  ProcessEnd end = ProcessEnd::lost;
  int32_t code = 0;
  int32_t strays = 0;     // descendants that outlived the command and were killed
  int32_t oom_kills = 0;  // kills by the kernel's out-of-memory killer on this host meanwhile
  double wall_s = 0;
  int64_t max_rss_bytes = 0;       // largest single process
  int64_t peak_private_bytes = 0;  // of the whole tree; 0 unless memory is limited
};

class WatchedProcess {
 public:
  explicit WatchedProcess(const ProcessJob& job);  // throws std::system_error when it cannot fork
  ~WatchedProcess();                               // kills what still runs
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;

  bool wait(double seconds);  // true once it has ended
  void cancel();              // SIGTERM, and SIGKILL after the grace
  /// SIGUSR1 to the command alone, which launchers pass on to their ranks and wait (model/engine/signals.h).
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

/// Kills every process of this user whose environment holds exactly `entry` ("NAME=value"). It needs no list
/// of process ids, which would have windows in which it is not yet written and could name a reused id.
/// Returns how many there were.
int kill_tagged(const std::string& entry);

}  // namespace isobar
