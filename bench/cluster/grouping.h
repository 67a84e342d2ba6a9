// Which trials share a cluster's job, and how much time it asks for.
//
//   for (const PlannedJob& j : plan_jobs(trials, sweep, cluster, results)) submit(j.nodes, j.time_s,
//   j.trials);
//
// A job holds trials of one number of nodes, so that none of them wait for the largest.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"
#include "bench/sweep/runner.h"
#include "bench/sweep/spec.h"
#include "bench/sweep/trials.h"

namespace isobar {

/// One job to be: the trials, in running order.
struct PlannedJob {
  int64_t nodes = 1;
  int64_t time_s = 0;  // to ask for
  std::vector<const Trial*> trials;
  double lead_s = 0;      // before its end, by which trials that go on elsewhere are told (remaining.h)
  std::string lead_from;  // why so long
};

/// Groups by number of nodes, then fills jobs of about cluster.job_time_s of predicted work. What a job asks
/// for leaves its longest trial room for its whole time limit. Throws ConfigError when max_time_s does not.
/// A trial that goes on from its checkpoints needs no such room: its job asks for what is left of it, up to
/// max_time_s, and for the lead. `results`: where its checkpoints are.
std::vector<PlannedJob> plan_jobs(const std::vector<const Trial*>& trials, const SweepSpec& sweep,
                                  const ClusterSpec& cluster, const std::filesystem::path& results);

/// What the job's pilot reads: job.json (bench/sweep/jobs.h).
nlohmann::json description_of(const PlannedJob& job, const std::string& name, const SweepSpec& sweep,
                              const SweepOptions& options, const ClusterSpec& cluster);

}  // namespace isobar
