// How a trial ended, in one word that the program writes itself.
//
// classify() is a pure function of what the supervisor saw (exit code, signal, limit), of the last events in
// the run's own result file and of the end of its error output.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "bench/sweep/process.h"

namespace isobar {

enum class RunClass {
  ok,
  bad_config,    // the run refused its configuration (exit code 2)
  oom_host,      // host memory ran out, or the trial's memory limit did
  oom_device,    // an accelerator's memory ran out
  timeout,       // wall clock
  hang,          // no progress
  crash,         // a signal, or an end without a result
  assertion,     // a check in the program or one of its libraries failed
  numeric,       // NaN or infinite loss (exit code 3)
  wrong_result,  // ran, but its own check of what it computed failed
  noisy,         // ran, but its steps scatter more than the sweep allows
  implausible,   // ran, and is faster than the machine's peaks allow
  launch_fail,   // never began: not started, or ended before run_start; tried again by the next sweep
  node_fail,     // its node went down; tried again
  preempted,     // its job had to give way; tried again
  interrupted,   // stopped from outside together with the sweep; tried again by the next sweep
};

const char* name_of(RunClass c);
std::optional<RunClass> run_class(const std::string& name);
/// Whether a trial of this class is complete: it is not run again unless asked. The faults of the
/// infrastructure are not.
bool is_final(RunClass c);

/// What the last events of result.jsonl say.
struct ResultTail {
  bool started = false;  // run_start is there
  int64_t starts = 0;    // and how many: one that goes on from a checkpoint writes another
  bool ended = false;    // run_end is there
  std::string status;    // of run_end: ok | failed
  std::string failure;   // its class
  std::string message;
  std::string last_event;  // e.g. "step"
  int64_t last_step = -1;
  std::string last_op;  // where an event names one
};

struct Verdict {
  RunClass run_class = RunClass::interrupted;
  std::string message;   // "" when there is nothing to say
  bool retry = false;    // not the trial's own doing, whatever the class: it may be tried again
  bool storage = false;  // the results' filesystem failed: what follows would fare no better
};

/// What a measurement must satisfy to count as one; 0 = not asked.
struct Plausibility {
  double least_step_s = 0;  // no machine of these peaks takes less
  double noise_limit = 0;   // StepStats::spread() of the steps
};
struct StepStats;  // results.h
/// An ok verdict that `step_s` contradicts becomes noisy or implausible.
Verdict doubted(Verdict v, const StepStats& step_s, const Plausibility& p);

/// What the scheduler's last word on a job ("NODE_FAIL", "CANCELLED by 0", …) means for the trial that it was
/// running.
Verdict verdict_of_job(const std::string& state, const std::string& job);

Verdict classify(const ProcessOutcome& outcome, const ResultTail& tail, const std::string& err_tail);

/// The verdict on a run of which only its result file is left (the sweep died before it could judge): set
/// only when the file settles it. A failure that the death of the sweep may itself have caused does not
/// count.
std::optional<Verdict> verdict_from_results(const ResultTail& tail);

}  // namespace isobar
