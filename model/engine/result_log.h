// result.jsonl of one run: the truth that sweeps, fits and reports read. One record a line
// (model/records/records.h); rank 0 writes, the others hold a log without a path that writes nothing.
#pragma once
#include <filesystem>

#include "model/engine/slow_work.h"
#include "model/records/records.h"

namespace isobar {

class ResultLog {
 public:
  ResultLog() = default;                                     // writes nothing
  explicit ResultLog(const std::filesystem::path& run_dir);  // throws ConfigError when it cannot be written
  void write(const Record& record);                          // on disk before it returns
  /// Handed to the kernel: survives a kill of the process, costs no sync.
  void write_step(const StepRecord& step);
  /// run_end, once: the first word on how a run ended counts, as what other ranks say of the same end is its
  /// echo. Only what was interrupted may be told better: by the checkpoint that was still written, or by what
  /// ended the rank whose death brought the signal. `better`: this may be that.
  void end(const EndRecord& end, bool better = true);
  void heartbeat();                               // touches a file, for whoever watches a long silence
  void slow_by(SlowWork* slow) { slow_ = slow; }  // which then knows of every write
  bool on() const { return !dir_.empty(); }

 private:
  std::filesystem::path dir_;
  SlowWork* slow_ = nullptr;
};

}  // namespace isobar
