// Grouping of trials into cluster jobs, with the time that each job requests.
//
//   for (const PlannedJob& j : plan_jobs(trials, sweep, cluster, results)) submit(j.nodes, j.time_s, …);
//
// All trials of a job need the same number of nodes, so that none holds nodes that it does not use. A chained
// trial has no reserve in its job: it requests its remaining work, up to max_time_s, and the lead.
//
// Remaining work of a chained trial (Trial::chained), and the lead before its job's end at which its ranks
// must be signalled so that they finish a step and write one more checkpoint.
//
//   const Remaining r = remaining_of(trial, TrialDir(…), limits, cluster);
//   ask_for(r.work_s + r.lead_s); …
//
// Times of a step and a checkpoint are those of the trial's last job, else the upper end of the prediction.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cluster/cluster.h"
#include "bench/cluster/jobscript.h"
#include "bench/sweep/results/trialdir.h"
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
  double lead_s = 0;      // before the job's end, the time at which chained trials are signalled
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

constexpr double kReserve_s = 5;  // for judging the last trial of a job

struct Remaining {
  double work_s = 0;      // start, steps and checkpoints
  double lead_s = 0;      // before the job's end, for the signal
  double least_s = 0;     // shortest job that makes progress
  std::string lead_from;  // for messages
};

Remaining remaining_of(const sweep::Trial& t, const sweep::TrialDir& dir, const sweep::TrialLimits& limits,
                       const ClusterSpec& c);

}  // namespace isobar::cluster
