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
  TrialDir(const std::filesystem::path& results, const Trial& trial, int64_t warmup);

  const std::filesystem::path& path() const { return dir_; }
  /// The class in status.json; nothing when there is none, or it cannot be read.
  std::optional<RunClass> verdict() const;
  /// Judges an attempt whose sweep died before it could, if its results settle it.
  bool adopt();
  /// Moves what an earlier attempt left into attempt-<n>/ and writes all that a new one starts from.
  void prepare();
  void judge(const ProcessOutcome& outcome);

 private:
  int64_t attempt() const;
  void write_status(const Verdict& v, const ProcessOutcome* outcome) const;

  const Trial& trial_;
  int64_t warmup_;
  std::filesystem::path dir_;
};

}  // namespace isobar
