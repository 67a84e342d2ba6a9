// The directory of a run (run.out): one training owns it at a time, and one training's results and weights
// lie in it. A second one is refused with the mend; what resumes goes on from the last checkpoint there, so
// that nothing of one training is ever in another's way.
//
//   RUN/result.jsonl  spec.json  checkpoints/  heartbeat  lock          and what --trace RUN/trace.json names
//
//   RunDir dir(spec.run.out, from);             // on one process of the run; `from`: a checkpoint, or ""
//
// What began and got to no step and no checkpoint has nothing to lose: the next one may use its directory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/base/lock.h"

namespace isobar {

class RunDir {
 public:
  /// "" as `out`: nothing is written, nothing is owned. Throws ConfigError where another process holds it, or
  /// where `out` holds a training that this one would not go on with.
  RunDir(const std::filesystem::path& out, const std::filesystem::path& from);

  /// Whether `from` is this directory's own: the training goes on here.
  bool goes_on() const { return goes_on_; }
  /// run_end of a training that came to its end and has not gone on since; null: none has.
  nlohmann::json ended() const;
  /// Gives the trace of the attempt before, which ended before `step`, a name of its own.
  void keep_trace(int64_t step) const;

 private:
  std::filesystem::path out_;
  FileLock lock_;
  bool goes_on_ = false;
};

}  // namespace isobar
