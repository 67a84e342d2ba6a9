// Runs the trials of a sweep, each in a process of its own. It can be killed at any time and resumed.
//
//   DIR/sweep.json                     the matrix: trials, and what was skipped and why
//   DIR/lock                           held while a sweep over DIR is running
//   DIR/index.sqlite                   see store.h
//   DIR/trials/<id>/trial.json         specification, repetition, what the sweep varied
//                   config.yaml        what the trainer is started from
//                   result.jsonl       written by the trainer
//                   out, err           its output
//                   ranks/             that of each rank, with --rank-output files
//                   attempt            how often it was started, and what of that came no further
//                   (trialdir.h) status.json        the verdict; a trial is complete when this holds a final
//                   class attempt-1/ …       what earlier, unfinished attempts left
//
//   SweepOutcome o = run_sweep(matrix, sweep, {.results = "results/demo", .trainer = self});
#pragma once
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/sweep/results/trials.h"
#include "bench/sweep/run/launcher.h"
#include "model/records/results.h"

namespace isobar::sweep {

struct SweepOptions {
  std::filesystem::path results;
  std::string trainer;                // executable that accepts `train CONFIG --ranks N --set run.out=DIR`
  std::string rank_output = "first";  // `isobar train --rank-output` of every trial
  std::string self = {};              // path of this program, for cluster jobs
  bool retry_failed = false;          // run complete trials whose class is not ok again
  bool progress = true;
  double lock_wait_s = 15;                           // time for a killed sweep's supervisor to clean up
  const Matrix* whole = nullptr;                     // written to sweep.json if only a part of it runs now
  const volatile std::sig_atomic_t* stop = nullptr;  // nonzero: stop the current trial and return
};

/// Resources that a cluster's jobs used, by the scheduler's accounting.
struct ClusterUse {
  int64_t jobs = 0, lives = 0;  // a requeued job has several lives
  double node_s = 0;            // node seconds
};

struct SweepOutcome {
  std::vector<records::RunRecord> runs;  // one per trial of the matrix, in order
  std::vector<std::string> problems;     // files that could not be read
  int64_t started = 0;                   // trials started now
  int64_t reused = 0;                    // complete before
  int64_t adopted = 0;                   // finished, but an earlier sweep died before recording it
  bool interrupted = false;
  std::optional<ClusterUse> used = std::nullopt;
  bool complete() const;  // every trial has a final class
};

SweepOutcome run_sweep(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options,
                       Launcher& launcher);

}  // namespace isobar::sweep
