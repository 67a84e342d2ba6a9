// The last steps of a run as a Chrome trace: spans by the device itself where it can watch (a GPU), by the
// runner where it cannot.
//
//   TracedSteps trace(plan, program, spec.train.steps, mpi, processor);
//   trace.begin(step);                      // before and after every step; those not traced pass through
//   trace.end(step, t0, t1);
//   say(trace.write("out/trace.json", log));
#pragma once
#include <filesystem>
#include <string>

#include "model/comm/comm.h"
#include "model/engine/processor.h"
#include "model/engine/result_log.h"
#include "model/trace/recorder.h"

namespace isobar {

class TracedSteps {
 public:
  static constexpr int64_t kSteps = 10;  // the last ones of the run

  /// What it is given stays where it is. `steps`: of the run.
  TracedSteps(const Plan& plan, const Program& program, int64_t steps, const Mpi& mpi, Processor& processor);
  void begin(int64_t step);
  void end(int64_t step, int64_t t0, int64_t t1);  // ns, by now_ns()
  /// Whether the device times the ops of the step that began last.
  bool watched() const { return watched_; }
  /// After the last step, by every rank: rank 0 merges what each wrote. Where the device watched, its times
  /// become the runner's op times. Returns what there is to tell the user.
  std::string write(const std::filesystem::path& path, ResultLog& log);

 private:
  bool traces(int64_t step) const { return step >= steps_ - kSteps; }
  std::string take_watched(Timeline& timeline, ResultLog& log);

  SpanRecorder recorder_;  // first: it is aligned to cache lines
  const Plan& plan_;
  const Program& program_;
  const int64_t steps_;
  const Mpi& mpi_;
  Processor& processor_;
  bool watched_ = false;
};

}  // namespace isobar
