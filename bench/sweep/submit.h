// A sweep on a cluster: groups the trials by the number of nodes they need into pilot jobs (pilot.h), submits
// them, follows them, and goes on until every trial has its verdict.
//
//   SweepOutcome o = run_on_cluster(matrix, sweep, options, cluster, *scheduler_of(cluster.scheduler), {});
//
// All state is in the results directory (jobs.h): it can be killed at any moment and run again, and several
// may run at a time. The jobs go on without it.
#pragma once
#include "bench/sweep/runner.h"
#include "bench/sweep/scheduler.h"

namespace isobar {

struct SubmitOptions {
  bool wait = true;   // false: submit what can be submitted now, and return
  std::string after;  // jobs start when the job of this id has ended
};

SweepOutcome run_on_cluster(const Matrix& matrix, const SweepSpec& sweep, const SweepOptions& options,
                            const ClusterSpec& cluster, Scheduler& scheduler, const SubmitOptions& submit);

/// One job to be: the trials, in running order.
struct PlannedJob {
  int64_t nodes = 1;
  int64_t time_s = 0;  // to ask for
  std::vector<const Trial*> trials;
};

/// Groups by number of nodes, then fills jobs of about cluster.job_time_s of predicted work. What a job asks
/// for leaves its longest trial room for its whole time limit. Throws ConfigError when max_time_s does not.
std::vector<PlannedJob> plan_jobs(const std::vector<const Trial*>& trials, const SweepSpec& sweep,
                                  const ClusterSpec& cluster);

/// Ends all jobs of a results directory; how many there were.
int cancel_jobs(const std::filesystem::path& results, Scheduler& scheduler);

}  // namespace isobar
