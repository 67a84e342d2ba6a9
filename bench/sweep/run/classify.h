// Classes of how a trial ended.
//
// classify() is a pure function of what the supervisor saw (exit code, signal, limit), the last events in the
// result file, and the end of the error output.
//
// The words by which programs say why they failed: of PyTorch, JAX, TensorFlow, CUDA and ROCm, NCCL and Gloo,
// Python, argparse, Hydra, shells and Slurm.
//
//   if (const auto said = failure_said_in(errors)) use(said->run_class, said->line);
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "bench/sweep/run/process.h"
#include "model/base/step_stats.h"
#include "model/records/run_class.h"

namespace isobar::sweep {

struct Verdict {
  records::RunClass run_class = records::RunClass::interrupted;
  std::string message;   // "": none
  bool retry = false;    // caused by the infrastructure: may be retried, whatever the class
  bool storage = false;  // the results' filesystem failed, so later trials would fail too
};

/// Conditions that a measurement must meet; 0 = not checked.
struct Plausibility {
  double least_step_s = 0;  // lower bound from the machine's peaks
  double noise_limit = 0;   // StepStats::spread() of the steps
};
/// Turns an ok verdict that violates the conditions into noisy or implausible.
Verdict doubted(Verdict v, const StepStats& step_s, const Plausibility& p);

/// The verdict on a trial whose job ended in this scheduler state ("NODE_FAIL", "CANCELLED by 0", …).
Verdict verdict_of_job(const std::string& state, const std::string& job);

Verdict classify(const ProcessOutcome& outcome, const records::ResultTail& tail, const std::string& err_tail);

/// The verdict of the last words of a program that is not ours; none: they name no failure.
std::optional<Verdict> verdict_of_words(const std::string& words, const records::ResultTail& tail);

/// The verdict on a run whose sweep died first, from its result file alone; empty if that does not settle it.
/// Failures that the sweep's death may have caused do not count.
std::optional<Verdict> verdict_from_results(const records::ResultTail& tail);

struct SaidFailure {
  records::RunClass run_class = records::RunClass::crash;
  const char* title = "";  // "out of device memory"
  std::string line;        // that says it
};

/// The most telling failure that the text names: memory before the lost connections that follow from it. A
/// program that has trained lacked no module, driver or argument, whatever it warned of.
std::optional<SaidFailure> failure_said_in(const std::string& text, bool trained = false);

}  // namespace isobar::sweep
