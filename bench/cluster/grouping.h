// Grouping of trials into cluster jobs, with the time that each job requests.
//
//   for (const PlannedJob& j : plan_jobs(trials, sweep, cluster, results)) submit(j.nodes, j.time_s, …);
//
// All trials of a job need the same number of nodes, so that none holds nodes that it does not use. A chained
// trial has no reserve in its job: it requests its remaining work, up to max_time_s, and the lead.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cluster/jobscript.h"
#include "bench/sweep/results/trials.h"
#include "bench/sweep/run/runner.h"
#include "bench/sweep/spec.h"

namespace isobar::cluster {

/// A planned job: its trials, in running order.
struct PlannedJob {
  int64_t nodes = 1;
  int64_t ranks_a_node = 1;
  int64_t time_s = 0;  // time to request
  double work_s = 0;   // expected of its trials; of a chained trial, in all its jobs
  std::vector<const sweep::Trial*> trials;
  double lead_s = 0;  // before the job's end, the time at which chained trials are signalled (remaining.h)
  std::string lead_from;  // how it was computed
};

/// Groups by number of nodes, on shared ones also by ranks a node, then fills jobs of about
/// cluster.job_time_s of predicted work; `results` has the checkpoints. The requested time leaves the longest
/// trial its whole time limit; throws ConfigError when max_time_s does not.
std::vector<PlannedJob> plan_jobs(const std::vector<const sweep::Trial*>& trials,
                                  const sweep::SweepSpec& sweep, const ClusterSpec& cluster,
                                  const std::filesystem::path& results);

/// Shortens the time limit of trials, unless the sweep gives one, to what a job of max_time_s has room for.
void bound_limits(sweep::TrialLimits& limits, const std::vector<sweep::Trial>& trials,
                  const ClusterSpec& cluster);

/// Node hours of a job: on shared nodes, those of its share.
double node_hours(const PlannedJob& job, const ClusterSpec& cluster, double seconds);

/// The request to the scheduler. `after`: the job starts after the end of this one; "" = at once.
JobRequest request_of(const PlannedJob& job, const std::string& name, const sweep::SweepOptions& options,
                      const ClusterSpec& cluster, const std::string& after);

/// job.json, the pilot's input (bench/sweep/run/jobs.h).
nlohmann::json description_of(const PlannedJob& job, const std::string& name, const sweep::SweepSpec& sweep,
                              const sweep::SweepOptions& options, const ClusterSpec& cluster);

}  // namespace isobar::cluster
