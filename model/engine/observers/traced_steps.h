// Chrome trace of a run's last steps, with spans from the device if it can be traced (a GPU), else from the
// runner.
//
//   TracedSteps trace(plan, program, spec.train.steps, mpi, processor);
//   trace.begin(step);                      // before and after every step; those not traced pass through
//   trace.end(step, t0, t1);
//   say(trace.write("out/trace.json", log));
#pragma once
#include <filesystem>
#include <string>

#include "model/comm/comm.h"
#include "model/engine/liveness/result_log.h"
#include "model/engine/processor.h"
#include "model/trace/recorder.h"

namespace isobar {

class TracedSteps {
 public:
  static constexpr int64_t kSteps = 10;  // last steps of a run

  /// Keeps references to its arguments. `steps`: of the run.
  TracedSteps(const Plan& plan, const Program& program, int64_t steps, const Mpi& mpi, Processor& processor);
  void begin(int64_t step);
  void end(int64_t step, int64_t t0, int64_t t1);  // ns, by now_ns()
  /// True if the device times the ops of the current step.
  bool watched() const { return watched_; }
  /// Called by every rank after the last step; rank 0 merges the ranks' files. Device times, if traced,
  /// replace the runner's op times. Returns a message for the user.
  std::string write(const std::filesystem::path& path, ResultLog& log);

 private:
  bool traces(int64_t step) const { return step >= steps_ - kSteps; }
  std::string take_watched(Timeline& timeline, ResultLog& log);

  SpanRecorder recorder_;  // first: aligned to cache lines
  const Plan& plan_;
  const Program& program_;
  const int64_t steps_;
  const Mpi& mpi_;
  Processor& processor_;
  bool watched_ = false;
};

}  // namespace isobar
