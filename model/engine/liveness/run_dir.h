// The directory of a run (run.out): one training owns it at a time, and it holds the results and weights of
// one training only. Another training is refused with the fix; a resumed one must continue from the last
// checkpoint there, so that trainings never mix.
//
//   RUN/result.jsonl  spec.json  checkpoints/  heartbeat  lock      and the file of --trace RUN/trace.json
//
//   RunDir dir(spec.run.out);                    // on one process of the run
//   dir.claim(from);                             // a checkpoint, or "": starts anew
//
// A training without any step or checkpoint has nothing to lose: the next one may use its directory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "model/base/system/lock.h"
#include "model/records/records.h"

namespace isobar::engine {

class RunDir {
 public:
  /// "": writes and owns nothing. Locks an existing directory from here on, so that later findings in it stay
  /// true; throws ConfigError where another process holds the lock.
  explicit RunDir(std::filesystem::path out);
  /// Creates and locks a new directory. Throws ConfigError where the directory holds a training that one from
  /// `from` would not continue; damaged checkpoints after `from` are set aside.
  void claim(const std::filesystem::path& from);

  /// True if `from` lies in this directory, whose training then continues.
  bool goes_on() const { return goes_on_; }
  /// The record of a training that ended and has not continued since.
  std::optional<records::EndRecord> ended() const;
  /// Renames the previous attempt's trace, which ended before `step`, so that it is kept.
  void keep_trace(int64_t step) const;

 private:
  std::filesystem::path out_;
  FileLock lock_;
  bool goes_on_ = false;
};

}  // namespace isobar::engine
