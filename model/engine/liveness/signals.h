// Signals that stop a run: Ctrl-C (SIGINT), SIGTERM, SIGHUP, and SIGUSR1, the advance notice of schedulers
// (srun --signal=USR1@120). While a StopSignals exists they end no process directly: the watchdog sees them,
// and all ranks agree on a step to stop after. A signal half a second or more after the first is a second
// one, which requests an immediate end.
//
// mpiexec turns Ctrl-C and SIGTERM into SIGCONT and SIGTERM to all ranks, followed by SIGKILL within a
// second, too soon for a step and a checkpoint. It forwards SIGUSR1 and SIGUSR2 and waits. Therefore `isobar
// train`, if it started mpiexec itself, sends those (SIGUSR1 for SIGTERM and SIGHUP, SIGUSR2 for SIGINT) and
// sets kStartedByTrain in the environment.
#pragma once

namespace isobar::engine {

class StopSignals {
 public:
  static constexpr const char* kStartedByTrain = "ISOBAR_STARTED_BY_TRAIN";
  StopSignals();   // one a process; ignored signals (nohup) stay ignored
  ~StopSignals();  // restores the previous handlers
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Lets the calling thread receive the signals; the thread that made the StopSignals, and threads it
  /// starts, do not. Kernels of oneDNN use the stack pointer as a general register, so a handler's frame on a
  /// computing thread would overwrite memory.
  static void receive_here();
  /// Number of signals, and the first one as its sender meant it (see above); 0: none.
  static int count();
  static int first();
  /// True if the process may be killed soon: a signal such as SIGTERM reached a launcher's rank directly.
  static bool pressing();
};

}  // namespace isobar::engine
