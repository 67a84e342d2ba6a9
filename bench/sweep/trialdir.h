// The directory of one trial: made, judged, and cleared for another attempt, or kept for one that goes on
// from its last checkpoint. Every step can be interrupted by a kill and is finished by the next sweep.
//
//   TrialDir dir(results, trial, warmup, 3);
//   const bool goes_on = dir.prepare(trial.chained());    // with --resume DIR, if so
//   dir.judge(outcome);
//
// What was stopped from outside has one try less. A start that left a newer checkpoint than it had found
// costs none, not even one that then crashed or hung: a training goes on through as many jobs as it takes.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "bench/sweep/classify.h"
#include "bench/sweep/trials.h"

namespace isobar {

class TrialDir {
 public:
  TrialDir(const std::filesystem::path& results, const Trial& trial, int64_t warmup,
           int64_t max_attempts = 0);

  const std::filesystem::path& path() const { return dir_; }
  /// The class in status.json; nothing when there is none, or it cannot be read.
  std::optional<RunClass> verdict() const;
  /// Whether that class is final, or was tried max_attempts times (0: as often as is asked).
  bool finished() const;
  /// How often it was started.
  int64_t attempt() const;
  /// Of the last whole checkpoint here; 0: there is none.
  int64_t saved_step() const;
  /// Whether there is a newer checkpoint than the last start found.
  bool came_further() const { return saved_step() > start().from; }
  /// The last events since the last start: a run that goes on has those of earlier ones in the same file.
  ResultTail tail() const;
  /// Judges an attempt whose sweep died before it could, if its results settle it.
  bool adopt();
  /// Moves what an earlier attempt left into attempt-<n>/ and writes all that a new one starts from. Where it
  /// may `go_on` and there is a checkpoint, only verdict and output are moved. Whether it goes on.
  bool prepare(bool go_on = false);
  /// What the process' end and the last events say of this start.
  Verdict weigh(const ProcessOutcome& outcome) const;
  /// That, held against what is plausible, becomes the verdict. `job`: the cluster job that ran it, "" on
  /// this host.
  Verdict judge(const ProcessOutcome& outcome, const Plausibility& plausibility = {},
                const std::string& job = "");
  /// A verdict that does not come from the process' end.
  void settle(const Verdict& v, const std::string& job);

 private:
  /// The file `attempt`: which start it is, from which step, which in a row that came no further, and how
  /// many run_start are older.
  struct Start {
    int64_t number = 0, from = 0, tries = 0, before = 0;
  };
  Start start() const;
  void write_status(const Verdict& v, const ProcessOutcome* outcome, const std::string& job) const;

  const Trial& trial_;
  int64_t warmup_, max_attempts_;
  std::filesystem::path dir_;
};

}  // namespace isobar
