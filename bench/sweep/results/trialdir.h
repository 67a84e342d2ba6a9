// The directory of one trial: prepared, judged, and cleared for another attempt or kept for one that resumes
// from its last checkpoint. A kill at any point is repaired by the next sweep.
//
//   TrialDir dir(results, trial, warmup, 3);
//   const bool goes_on = dir.prepare(trial.chained());    // with --resume DIR, if so
//   dir.judge(outcome);
//
// An external stop uses up one attempt. A start that left a newer checkpoint than it found uses up none, even
// if it then crashed or hung, so a training may span any number of jobs.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "bench/sweep/results/trials.h"
#include "bench/sweep/run/classify.h"

namespace isobar::sweep {

class TrialDir {
 public:
  TrialDir(const std::filesystem::path& results, const Trial& trial, int64_t warmup,
           int64_t max_attempts = 0);

  const std::filesystem::path& path() const { return dir_; }
  /// The class in status.json; empty if there is none or it is unreadable.
  std::optional<records::RunClass> verdict() const;
  /// True if that class is final, or max_attempts were used (0: unlimited).
  bool finished() const;
  /// Number of starts.
  int64_t attempt() const;
  /// Step of the last complete checkpoint; 0: none.
  int64_t saved_step() const;
  /// True if there is a newer checkpoint than the last start found.
  bool came_further() const { return saved_step() > start().from; }
  /// The last events since the last start; the file of a resumed run also holds earlier ones.
  records::ResultTail tail() const;
  /// Judges an attempt whose sweep died first, if its results settle it.
  bool adopt();
  /// Moves files of earlier attempts into attempt-<n>/ and writes the inputs of a new one. If `go_on` and
  /// there is a checkpoint, moves only verdict and output; returns whether the trial resumes.
  bool prepare(bool go_on = false);
  /// Undoes this object's prepare(), after which nothing has started.
  void take_back();
  /// Verdict on this start from the process' end and the last events.
  Verdict weigh(const ProcessOutcome& outcome) const;
  /// Checks that verdict against `plausibility` and records it. `job`: the cluster job that ran it, "" on
  /// this host.
  Verdict judge(const ProcessOutcome& outcome, const Plausibility& plausibility = {},
                const std::string& job = "");
  /// Records a verdict that does not come from the process' end.
  void settle(const Verdict& v, const std::string& job);

 private:
  /// Content of the file `attempt`: number of this start, its first step, consecutive starts without
  /// progress, and earlier run_start events.
  struct Start {
    int64_t number = 0, from = 0, tries = 0, before = 0;
  };
  Start start() const;
  void write_status(const Verdict& v, const ProcessOutcome* outcome, const std::string& job) const;

  const Trial& trial_;
  int64_t warmup_, max_attempts_;
  std::filesystem::path dir_;
  std::string before_;  // content of `attempt` before prepare()
};

}  // namespace isobar::sweep
