// A measured step and its prediction in one Chrome trace: for each rank and lane the measured track above the
// predicted one, both starting when the rank's measured step began. Perfetto (ui.perfetto.dev) opens it.
//
//   SideBySide s = side_by_side(data, {});       // of the fastest run that left a trace
//   s.write("out/perfetto.json");
//
// The measured step is the traced one of median length; the predicted step takes the time that the report
// shows. Only one rank of each pipeline stage is replayed, and all ranks of the stage show it.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reports/timeline.h"

namespace isobar::report {

struct SideBySide {
  const ReportRun* run = nullptr;
  int32_t step = 0;                       // the measured step
  std::vector<nets::StageProgram> ranks;  // plans of the traced ranks
  std::vector<trace::Timeline> measured;  // indexed as `ranks`; times from the earliest begin of the step
  PredictedStep predicted;
  std::vector<int> stands_for;  // indexed as `ranks`: the rank that was replayed

  /// The file is replaced atomically.
  void write(const std::filesystem::path& file) const;
};

/// Throws ConfigError if no run left a trace, no machine file predicts, or a trace has ops that the run's
/// plan does not.
SideBySide side_by_side(const ReportData& d, const std::function<plan::Workspace(int threads)>& workspace);

}  // namespace isobar::report
