// One step of some ranks as segments on their lanes, with what costs time marked: communication that no
// computation hides, and gaps in which the compute lane has nothing to do (bubbles).
//
//   std::optional<StepTimeline> t = measured_timeline(run);   // from DIR/trace.json, as `train --trace` has
//   it StepTimeline p = predicted_timeline(run, machine);
//
// Words as HTA and Megatron use them: communication is exposed where no computation runs on any lane of the
// rank.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/trace/span.h"
#include "perfmodel/step/pipeline.h"
#include "reports/data.h"

namespace isobar {

struct Segment {
  int rank = 0;
  std::string lane;
  std::string what;  // compute | data | communication, hidden | communication, exposed | idle
  std::string op;    // path; "" for idle
  double begin_ms = 0, end_ms = 0;
};

struct StepTimeline {
  double step_ms = 0;
  int ranks = 0;
  std::vector<Segment> segments;
  double exposed_ms = 0, idle_ms = 0;  // mean over ranks
};

/// One step of all ranks that were traced, on the trace's clock.
struct MeasuredStep {
  int32_t step = 0;
  std::vector<StepTime> ranks;  // by rank; rank 0's is the first
  std::vector<OpSpan> spans;
};
/// The step of middle length of rank 0; nothing without DIR/trace.json. Throws ConfigError for a file that is
/// no trace of Isobar's.
std::optional<MeasuredStep> middle_step(const RunRecord& r);

/// A steady step replayed. Times are stretched so that the step takes as long as was predicted, which
/// includes by how much runs of this kind deviated from their counted ops (Prediction::correction).
struct PredictedStep {
  std::vector<StageProgram> stages;  // one rank of each stage of the pipeline, who speaks for those alike
  Timeline timeline;                 // of those ranks; times from the begin of the step
  double step_s = 0;                 // predicted seconds of the step
  const StageProgram& of_rank(int rank) const;  // one that was replayed
};
PredictedStep predicted_step(const ReportRun& r, const Machine& m);

/// Runs that left a trace, fastest first.
std::vector<const ReportRun*> traced_runs(const ReportData& d);

/// Times of the spans are from the begin of the step.
StepTimeline marked(const std::vector<OpSpan>& spans, double step_ms);

/// Of the middle step.
std::optional<StepTimeline> measured_timeline(const RunRecord& r);
StepTimeline predicted_timeline(const ReportRun& r, const Machine& m);

}  // namespace isobar
