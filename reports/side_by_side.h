// A measured step and its prediction in one Chrome trace: per rank and lane the measured track with the
// predicted one below it, which begins when the rank's measured step did. Perfetto (ui.perfetto.dev) opens
// it.
//
//   SideBySide s = side_by_side(data, {});       // of the fastest run that left a trace
//   s.write("out/perfetto.json");
//
// The measured step is the middle one of those traced; the predicted one takes as long as the report says,
// interval aside. Ranks of one stage of a pipeline are predicted alike: each shows the rank that was
// replayed.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reports/timeline.h"

namespace isobar {

struct SideBySide {
  const ReportRun* run = nullptr;
  int32_t step = 0;                 // that was measured
  std::vector<StageProgram> ranks;  // plans of those traced
  std::vector<Timeline> measured;   // by the index of `ranks`; from the earliest begin of the step
  PredictedStep predicted;
  std::vector<int> stands_for;  // by the index of `ranks`: the rank that was replayed

  /// Atomic.
  void write(const std::filesystem::path& file) const;
};

/// Throws ConfigError where no run left a trace, where no machine file predicts, and for a trace that holds
/// what the run's plan does not.
SideBySide side_by_side(const ReportData& d, const std::function<Workspace(int threads)>& workspace);

}  // namespace isobar
