// The directory of one trial: made, judged, and cleared for another attempt. Every step can be interrupted by
// a kill and is finished by the next sweep.
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
  /// Judges an attempt whose sweep died before it could, if its results settle it.
  bool adopt();
  /// Moves what an earlier attempt left into attempt-<n>/ and writes all that a new one starts from.
  void prepare();
  /// `job`: the cluster job that ran it, "" on this host.
  Verdict judge(const ProcessOutcome& outcome, const Plausibility& plausibility = {},
                const std::string& job = "");
  /// A verdict that does not come from the process' end.
  void settle(const Verdict& v, const std::string& job);

 private:
  void write_status(const Verdict& v, const ProcessOutcome* outcome, const std::string& job) const;

  const Trial& trial_;
  int64_t warmup_, max_attempts_;
  std::filesystem::path dir_;
};

}  // namespace isobar
