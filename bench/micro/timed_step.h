// Runs a spec's step as rank 0 on the CPU and times each op within it, with caches as the previous ops left
// them. Repeating one op alone would find its operands in cache and report norms, column sums and optimizers
// about twice as fast as in training.
//
//   TimedStep step(spec, /*threads=*/1);
//   for (const Op* op : step.distinct()) step.seconds(step.name(*op), 0);
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/spec/spec.h"
#include "model/inference/arena.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"

namespace isobar::micro {

class TimedStep {
 public:
  static constexpr int kRepetitions = 3;

  TimedStep(const RunSpec& spec, int threads);

  /// One op of each name, in the step's order, without batch loading and transfers.
  std::vector<const plan::Op*> distinct() const;
  /// Median over the steps of a repetition and the ops of that name; the first request of a repetition
  /// measures all ops. Uses the calling thread and `threads` OpenMP threads.
  double seconds(const std::string& name, int repetition);
  /// KIND/DTYPE/SHAPE/threadsN, as calibrate.h parses it: ops of one name do the same work.
  std::string name(const plan::Op& op) const;

  /// Runs one step; calls `took` with each timed op and its seconds.
  void run(const std::function<void(const plan::Op&, double)>& took);

  const std::byte* at(const plan::View& v) const { return backend_.at(v); }

  int threads() const { return threads_; }

  const plan::Plan plan;

 private:
  void measure();
  void fill(const plan::Op& op);

  std::string dtype_;
  int threads_;
  plan::Program program_;
  inference::Arena arena_;
  CpuBackend backend_;
  std::vector<std::map<std::string, double>> medians_;  // by repetition, then by name
};

}  // namespace isobar::micro
