// What is left of a trial that goes on from its checkpoints (Trial::chained), and how long before its job's
// end its ranks have to be told, so that they end a step and write one more.
//
//   const Remaining r = remaining_of(trial, TrialDir(…), limits, cluster);
//   ask_for(r.work_s + r.lead_s); …
//
// A step and a checkpoint take what they took where the trial ran last, else the upper end of what is
// predicted.
#pragma once
#include <string>

#include "bench/cluster/cluster.h"
#include "bench/sweep/spec.h"
#include "bench/sweep/trialdir.h"

namespace isobar {

constexpr double kReserve_s = 5;  // of a job, for judging the last trial

struct Remaining {
  double work_s = 0;      // start, steps and checkpoints
  double lead_s = 0;      // before the job's end
  double least_s = 0;     // that a job must last to bring it further
  std::string lead_from;  // for people
};

Remaining remaining_of(const Trial& t, const TrialDir& dir, const TrialLimits& limits, const ClusterSpec& c);

}  // namespace isobar
