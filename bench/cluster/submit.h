// A sweep on a cluster: groups the trials by the number of nodes they need into pilot jobs (pilot.h), submits
// them, follows them, and goes on until every trial has its verdict.
//
//   SweepOutcome o = run_on_cluster(matrix, sweep, options, cluster, *scheduler_of(cluster.scheduler), {});
//
// All state is in the results directory (jobs.h): it can be killed at any moment and run again, and several
// may run at a time. The jobs go on without it.
#pragma once
#include "bench/cluster/scheduler.h"
#include "bench/sweep/runner.h"

namespace isobar {

struct SubmitOptions {
  bool wait = true;   // false: submit what can be submitted now, and return
  std::string after;  // jobs start when the job of this id has ended
};

SweepOutcome run_on_cluster(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options,
                            const ClusterSpec& cluster, Scheduler& scheduler, const SubmitOptions& submit);

/// Ends all jobs of a results directory; how many there were.
int cancel_jobs(const std::filesystem::path& results, Scheduler& scheduler);

}  // namespace isobar
