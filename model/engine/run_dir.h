// The directory of a run (run.out): one training owns it at a time, and one training's results and weights
// lie in it. A second one is refused with the mend; what resumes goes on from the last checkpoint there, so
// that nothing of one training is ever in another's way.
//
//   RUN/result.jsonl  spec.json  checkpoints/  heartbeat  lock          and what --trace RUN/trace.json names
//
//   RunDir dir(spec.run.out);                    // on one process of the run
//   dir.claim(from);                             // a checkpoint, or "": starts anew
//
// What began and got to no step and no checkpoint has nothing to lose: the next one may use its directory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "model/base/lock.h"
#include "model/records/records.h"

namespace isobar {

class RunDir {
 public:
  /// "": nothing is written, nothing is owned. Holds a directory that is there already from here on, so that
  /// what is found in it stays true. Throws ConfigError where another process does.
  explicit RunDir(std::filesystem::path out);
  /// Makes and holds it otherwise. Throws ConfigError where it holds a training that one from `from` would
  /// not go on with. Later checkpoints than `from` that are damaged are set aside.
  void claim(const std::filesystem::path& from);

  /// Whether `from` is this directory's own: its training goes on.
  bool goes_on() const { return goes_on_; }
  /// Of a training that came to its end and has not gone on since.
  std::optional<EndRecord> ended() const;
  /// Gives the trace of the attempt before, which ended before `step`, a name of its own.
  void keep_trace(int64_t step) const;

 private:
  std::filesystem::path out_;
  FileLock lock_;
  bool goes_on_ = false;
};

}  // namespace isobar
