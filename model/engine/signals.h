// What asks a run to stop: Ctrl-C (SIGINT), SIGTERM, SIGHUP, and SIGUSR1, the notice that schedulers give
// before they end a job (srun --signal=USR1@120). While a StopSignals lives these end no process at once; the
// watchdog sees them, and all ranks agree on a step to stop after. What comes half a second after the first,
// or later, counts as a second one, which asks for the end at once.
//
// mpiexec turns Ctrl-C and SIGTERM into SIGCONT and SIGTERM to all ranks, and SIGKILL a second later: too
// soon for a step and a checkpoint. It passes SIGUSR1 and SIGUSR2 on and waits. So `isobar train`, where it
// started mpiexec itself, sends those (SIGUSR1 for SIGTERM and SIGHUP, SIGUSR2 for SIGINT) and says so by
// kStartedByTrain in the environment.
#pragma once

namespace isobar {

class StopSignals {
 public:
  static constexpr const char* kStartedByTrain = "ISOBAR_STARTED_BY_TRAIN";
  StopSignals();   // one at a time in a process. What is ignored (nohup) stays ignored.
  ~StopSignals();  // as they were before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The calling thread may be interrupted by them; the one that made the StopSignals, and those that are
  /// started from it, are not. For oneDNN's kernels take the stack pointer for a register like any other: the
  /// frame of a handler on a thread that computes would land in whatever it points to.
  static void receive_here();
  /// How many came, and the first of them as whoever sent it meant it (see above); 0: none.
  static int count();
  static int first();
  /// The process may be killed soon: SIGTERM and its like came right to a rank that a launcher started.
  static bool pressing();
};

}  // namespace isobar
