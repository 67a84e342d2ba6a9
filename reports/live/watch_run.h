// State of a training run, read from its run directory alone.
//
//   RunWatch watch("runs/first");
//   watch.refresh();                              // reads what has been written since
//   std::fputs(frame(watch.state(), {.width = 100}).c_str(), stdout);
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/records/advice.h"
#include "model/records/records.h"
#include "reports/live/watch.h"

namespace isobar::report {

struct RunState {
  std::filesystem::path dir;
  std::optional<records::StartRecord> start;
  std::vector<records::StepRecord> steps;  // in order; steps repeated after a resume count once
  std::vector<records::ValidRecord> valid;
  std::optional<records::RanksRecord> ranks;            // the last one
  std::optional<records::CheckpointRecord> checkpoint;  // the last one
  std::optional<records::EndRecord> end;
  records::Advisor advisor{{}};  // what slows it, from these records
  double age_s = 0;              // since its result file last grew
  int64_t wanted() const;        // total steps; 0: not known
  double step_s() const;         // median of the last steps; 0: none yet
  double left_s() const;         // estimated seconds left; 0: not known
};

class RunWatch {
 public:
  /// Throws ConfigError if no training has begun in the directory.
  explicit RunWatch(const std::filesystem::path& dir);
  void refresh();
  const RunState& state() const { return state_; }

 private:
  void take(const records::Record& r);

  RunState state_;
  int64_t read_ = 0;  // bytes
};

/// Lines on its place, net, pace, losses, ranks and advice.
std::vector<std::string> lines_of(const RunState& s);
/// These, and a curve of losses.
std::string frame(const RunState& s, const FrameOptions& options);

}  // namespace isobar::report
