// Classes of how a trial ended, as result files and status files name them.
//
//   run_class("oom_host"), name_of(RunClass::oom_host), is_final(RunClass::oom_host)
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace isobar::records {

enum class RunClass {
  ok,
  bad_config,    // the run rejected its configuration (exit code 2)
  oom_host,      // host memory ran out, or the trial's memory limit did
  oom_device,    // an accelerator's memory ran out
  timeout,       // wall-clock limit
  hang,          // no progress
  crash,         // a signal, or an exit without a result
  assertion,     // a check in the program or one of its libraries failed
  numeric,       // NaN or infinite loss (exit code 3)
  wrong_result,  // ran, but its self-check failed
  noisy,         // ran, but its step times scatter more than the sweep allows
  implausible,   // ran, and is faster than the machine's peaks allow
  launch_fail,   // not started, or ended before run_start; retried by the next sweep
  node_fail,     // its node failed; retried
  preempted,     // its job was preempted; retried
  interrupted,   // stopped from outside together with the sweep; retried by the next sweep
};

const char* name_of(RunClass c);
std::optional<RunClass> run_class(const std::string& name);
/// A final class is not run again unless requested. Infrastructure failures are not final.
bool is_final(RunClass c);

/// Summary of the last events of result.jsonl.
struct ResultTail {
  bool started = false;  // run_start is present
  int64_t starts = 0;    // number of run_start: a resumed run writes another
  bool ended = false;    // run_end is present
  std::string status;    // of run_end: ok | failed
  std::string failure;   // its failure class
  std::string message;
  std::string last_event;  // e.g. "step"
  int64_t last_step = -1;
  std::string last_op;  // if an event names one
};

}  // namespace isobar::records
