// What a timeline says, as numbers. Predicted and measured timelines are analysed by the same code.
//
//   Analyser a(plan, program);                     // one rank's
//   a.add(recorder.take());                        // as often as wished
//   a.steps().back().coverage();  a.ops();
//
// Words, as HTA and Megatron use them; every interval is cut to its step:
//   compute   union of the spans of ops that are neither collectives nor fetches, on any lane
//   comm      union of the spans of collectives, on any lane
//   data      union of the fetches: waiting for the loader and unpacking
//   wait      gap on the compute lane, before an op, while an op of another lane that it must wait for runs;
//   at
//             the end of the step, while any other lane runs
//   exposed   comm without compute: |comm \ compute|; the rest of comm is overlapped
//   idle      neither compute, comm nor data
//   covered   compute lane busy or in such a wait; what is not is unattributed: the executor's own time
//   moving    of that, while a transfer runs: without a communication thread the compute lane moves it itself
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/link.h"
#include "model/trace/span.h"

namespace isobar {

struct StepSplit {  // seconds of one step of one rank
  int32_t rank = 0, step = 0;
  double step_s = 0;
  double compute_s = 0, comm_s = 0, data_s = 0, wait_s = 0, idle_s = 0;
  double exposed_comm_s = 0;
  double exposed_by_lane_s[kLanes] = {};  // collectives of that lane, without compute
  double unattributed_s = 0, moving_s = 0;
  int64_t too_early = 0;  // ops that began before what they must wait for had ended: a broken executor

  double coverage() const { return step_s > 0 ? 1 - unattributed_s / step_s : 1; }        // share of step
  double overlap() const { return comm_s > 0 ? 1 - exposed_comm_s / comm_s : 0; }         // share of comm
  double unattributed_share() const { return step_s > 0 ? unattributed_s / step_s : 0; }  // share of step
};

struct OpRow {  // all runs of the ops with one path
  std::string path, kind, lane, shape;
  int64_t count = 0;   // spans
  double seconds = 0;  // sum over spans
  double min_s = 0, max_s = 0;
  double flops = 0, bytes = 0, wire_bytes = 0;  // sums over spans, from work()
  double gflops_per_s() const { return seconds > 0 ? flops / seconds * 1e-9 : 0; }
  double gbytes_per_s() const { return seconds > 0 ? bytes / seconds * 1e-9 : 0; }
};

class Analyser {
 public:
  /// Keeps references: both must outlive it.
  Analyser(const Plan& plan, const Program& program);
  /// A step's spans and its StepTime must come in the same call. Spans of steps without StepTime only count
  /// in ops(). Throws std::out_of_range when a span names an op or instr that does not exist.
  void add(const Timeline& timeline);

  const std::vector<StepSplit>& steps() const { return steps_; }
  std::vector<OpRow> ops() const;  // longest first

 private:
  StepSplit split(const StepTime& step, const std::vector<const Span*>& spans) const;
  const Plan& plan_;
  const Program& program_;
  std::vector<StepSplit> steps_;
  std::map<std::string, OpRow> rows_;
};

/// Median, over steps, of each number; the first `warmup` steps are left out if others remain.
StepSplit median(std::vector<StepSplit> steps, size_t warmup = 2);

}  // namespace isobar
