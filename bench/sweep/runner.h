// Runs the trials of a sweep, each in a process of its own, and can be killed at any moment.
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

#include "bench/sweep/launcher.h"
#include "bench/sweep/results.h"
#include "bench/sweep/trials.h"

namespace isobar {

struct SweepOptions {
  std::filesystem::path results;
  std::string trainer;  // executable that understands `train CONFIG --ranks N --set run.out=DIR`
  std::string rank_output = "first";  // of every trial: `isobar train --rank-output`
  std::string self = {};              // this program, for what a cluster's job becomes
  bool retry_failed = false;          // run complete trials of another class than ok again
  bool progress = true;
  double lock_wait_s = 15;        // a killed sweep's supervisor needs a moment to clean up
  const Matrix* whole = nullptr;  // what sweep.json tells of, where only a part of it is to run now
  const volatile std::sig_atomic_t* stop = nullptr;  // not 0: stop the trial under way and return
};

/// What a cluster's jobs took, by the scheduler's books.
struct ClusterUse {
  int64_t jobs = 0, lives = 0;  // a requeued job has several lives
  double node_s = 0;            // seconds times nodes
};

struct SweepOutcome {
  std::vector<RunRecord> runs;        // one per trial of the matrix, in its order
  std::vector<std::string> problems;  // files that could not be read
  int64_t started = 0;                // trials started now
  int64_t reused = 0;                 // complete before
  int64_t adopted = 0;                // had finished under an earlier sweep that died before it could say so
  bool interrupted = false;
  std::optional<ClusterUse> used = std::nullopt;
  bool complete() const;  // every trial has a final class
};

SweepOutcome run_sweep(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options,
                       Launcher& launcher);

/// Whether a trial's directory holds a final verdict.
bool is_complete(const std::filesystem::path& trial_dir);

}  // namespace isobar
