// One step of some ranks as segments on their lanes. Exposed communication is marked.
//
//   std::optional<StepTimeline> t = measured_timeline(run);   // from DIR/trace.json, as `train --trace` has
//   it StepTimeline p = predicted_timeline(run, machine);
//
// Communication is exposed where no computation runs on any lane of the rank, as HTA and Megatron define it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/trace/span.h"
#include "perfmodel/step/simulate.h"
#include "reports/data.h"

namespace isobar::report {

struct Segment {
  int rank = 0;
  std::string lane;
  std::string what;  // compute | data | communication, hidden | communication, exposed
  std::string op;    // path
  double begin_ms = 0, end_ms = 0;
};

struct StepTimeline {
  double step_ms = 0;
  int ranks = 0;
  std::vector<Segment> segments;
  double exposed_ms = 0, idle_ms = 0;  // mean over ranks; idle: gaps of the compute lane
};

/// One step of all ranks that were traced, on the trace's clock.
struct MeasuredStep {
  int32_t step = 0;
  std::vector<trace::StepTime> ranks;  // by rank, starting with rank 0
  std::vector<trace::OpSpan> spans;
};
/// The step in which rank 0's duration is the median; empty without DIR/trace.json. Throws ConfigError for a
/// file that is not an Isobar trace.
std::optional<MeasuredStep> middle_step(const records::RunRecord& r);

/// A replayed steady step, with times scaled so that the step takes the predicted time, which includes the
/// correction for this kind of run (Prediction::correction).
struct PredictedStep {
  std::vector<nets::StageProgram> stages;             // one representative rank of each pipeline stage
  trace::Timeline timeline;                           // of those ranks; times from the begin of the step
  double step_s = 0;                                  // predicted seconds of the step
  const nets::StageProgram& of_rank(int rank) const;  // the replayed representative
};
PredictedStep predicted_step(const ReportRun& r, const perf::Machine& m);

/// Runs that left a trace, fastest first.
std::vector<const ReportRun*> traced_runs(const ReportData& d);

/// Span times count from the begin of the step.
StepTimeline marked(const std::vector<trace::OpSpan>& spans, double step_ms);

/// Timeline of the median step.
std::optional<StepTimeline> measured_timeline(const records::RunRecord& r);
StepTimeline predicted_timeline(const ReportRun& r, const perf::Machine& m);

}  // namespace isobar::report
