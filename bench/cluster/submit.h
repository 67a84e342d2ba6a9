// A sweep on a cluster: groups the trials by number of nodes into pilot jobs (pilot.h), submits and follows
// them, until every trial has its verdict.
//
//   SweepOutcome o = run_on_cluster(matrix, sweep, options, cluster, *scheduler_of(cluster.scheduler));
//
// All state is in the results directory (jobs.h): this process can be killed at any moment and started again,
// and several may run at a time. The jobs continue without it.
#pragma once
#include "bench/cluster/schedulers/scheduler.h"
#include "bench/sweep/run/runner.h"

namespace isobar::cluster {

/// `wait`: else submits what can be submitted now, and returns; `after`: jobs start after the end of this
/// job.
sweep::SweepOutcome run_on_cluster(const sweep::Matrix& matrix, const sweep::SweepSpec& sweep,
                                   const sweep::SweepOptions& options, const ClusterSpec& cluster,
                                   Scheduler& scheduler, bool wait = true, const std::string& after = "");

/// Cancels all jobs of a results directory; returns their number.
int cancel_jobs(const std::filesystem::path& results, Scheduler& scheduler);

}  // namespace isobar::cluster
