// Remaining work of a chained trial (Trial::chained), and the lead before its job's end at which its ranks
// must be signalled so that they finish a step and write one more checkpoint.
//
//   const Remaining r = remaining_of(trial, TrialDir(…), limits, cluster);
//   ask_for(r.work_s + r.lead_s); …
//
// Times of a step and a checkpoint are those of the trial's last job, else the upper end of the prediction.
#pragma once
#include <string>

#include "bench/cluster/cluster.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/spec.h"

namespace isobar::cluster {

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
