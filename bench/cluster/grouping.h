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

#include "bench/cluster/cluster.h"
#include "bench/sweep/results/trials.h"
#include "bench/sweep/run/runner.h"
#include "bench/sweep/spec.h"

namespace isobar {

/// A planned job: its trials, in running order.
struct PlannedJob {
  int64_t nodes = 1;
  int64_t time_s = 0;  // time to request
  std::vector<const Trial*> trials;
  double lead_s = 0;  // before the job's end, the time at which chained trials are signalled (remaining.h)
  std::string lead_from;  // how it was computed
};

/// Groups by number of nodes, then fills jobs of about cluster.job_time_s of predicted work; `results` has
/// the checkpoints. The requested time leaves the longest trial its whole time limit; throws ConfigError when
/// max_time_s does not.
std::vector<PlannedJob> plan_jobs(const std::vector<const Trial*>& trials, const SweepSpec& sweep,
                                  const ClusterSpec& cluster, const std::filesystem::path& results);

/// job.json, the pilot's input (bench/sweep/run/jobs.h).
nlohmann::json description_of(const PlannedJob& job, const std::string& name, const SweepSpec& sweep,
                              const SweepOptions& options, const ClusterSpec& cluster);

}  // namespace isobar
