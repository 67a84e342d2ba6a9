// A spec's step on the CPU, as rank 0 computes it, and how long each of its ops takes: in the step's order,
// on what the ops before it left in the caches, as in a training. Repeated alone an op finds its operands in
// the core's own cache: norms, column sums and optimizers then run twice as fast.
//
//   TimedStep step(spec, /*threads=*/1);
//   for (const Op* op : step.distinct()) step.seconds(step.name(*op), 0);
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/spec.h"
#include "model/inference/arena.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"

namespace isobar {

class TimedStep {
 public:
  static constexpr int kRepetitions = 3;

  TimedStep(const RunSpec& spec, int threads);

  /// One op of each name, in the step's order, without the batch's arrival and transfers.
  std::vector<const Op*> distinct() const;
  /// Of a repetition: the median over its steps and over the ops of that name, all measured when the first of
  /// it is asked for. On the calling thread, with `threads` OpenMP threads.
  double seconds(const std::string& name, int repetition);
  /// KIND/DTYPE/SHAPE/threadsN, as calibrate.h reads it: ops of one name do the same work.
  std::string name(const Op& op) const;

  /// One step; `took` is told every such op, and its seconds.
  void run(const std::function<void(const Op&, double)>& took);

  const std::byte* at(const View& v) const { return backend_.at(v); }

  int threads() const { return threads_; }

  const Plan plan;

 private:
  void measure();
  void fill(const Op& op);

  std::string dtype_;
  int threads_;
  Program program_;
  Arena arena_;
  CpuBackend backend_;
  std::vector<std::map<std::string, double>> medians_;  // by repetition, then by name
};

}  // namespace isobar
