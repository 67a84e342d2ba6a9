// result.jsonl of one run, which sweeps, fits and reports read. One record a line (model/records/records.h);
// rank 0 writes, the other ranks hold a log without a path.
#pragma once
#include <filesystem>

#include "model/engine/liveness/slow_work.h"
#include "model/records/records.h"

namespace isobar::engine {

class ResultLog {
 public:
  ResultLog() = default;                                     // writes nothing
  explicit ResultLog(const std::filesystem::path& run_dir);  // throws ConfigError if not writable
  void write(const records::Record& record) const;           // on disk before it returns
  /// Passed to the kernel without sync: survives a kill of the process.
  void write_step(const records::StepRecord& step) const;
  /// Writes run_end once: the first report of a failure counts, because later ones from other ranks are
  /// consequences of it. Only `interrupted` can be replaced, by a record with `better` set: the checkpoint
  /// that was still written, or the failure whose signal reached this rank.
  void end(const records::EndRecord& end, bool better = true) const;
  void heartbeat() const;                         // touches a file, for observers of a long silence
  void slow_by(SlowWork* slow) { slow_ = slow; }  // notified of every write
  bool on() const { return !dir_.empty(); }

 private:
  std::filesystem::path dir_;
  SlowWork* slow_ = nullptr;
};

}  // namespace isobar::engine
