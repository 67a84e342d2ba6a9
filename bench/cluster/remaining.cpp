#include "bench/cluster/remaining.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/records/results.h"

namespace isobar::cluster {
namespace {

constexpr double kAssumedCheckpoint_s = 60;  // without a measurement or prediction
constexpr double kHaste = 2;                 // safety factor: disks are shared, and steps vary
constexpr double kLeast_s = 10;  // lower bound for both: ranks agree on a step, files are created and synced
constexpr double kSlurmIsEarly_s = 60;  // by which its signal may precede the requested time

struct Pace {
  double seconds = 0;
  const char* source = "";
};

Pace first_known(double measured, double predicted, double assumed) {
  if (measured > 0) return {measured, "measured"};
  if (predicted > 0) return {predicted, "predicted"};
  return {assumed, "assumed"};
}

}  // namespace

Remaining remaining_of(const sweep::Trial& t, const sweep::TrialDir& dir, const sweep::TrialLimits& limits,
                       const ClusterSpec& c) {
  records::RunRecord last;
  std::vector<std::string> unheard;  // load_runs reports these
  const int64_t saved = dir.saved_step();
  if (saved > 0) last = records::load_run(dir.path(), &unheard);
  double slowest = 0;
  for (const records::CheckpointRecord& one : last.checkpoints) slowest = std::max(slowest, one.seconds);
  const sweep::Forecast f = t.forecast.value_or(sweep::Forecast());
  const Pace step = first_known(last.step_s.median, std::max(f.step_s, f.upper_s), c.start_s);
  // A command writes checkpoints within its own steps.
  const bool own = t.spec.run.command.empty();
  const Pace checkpoint =
      own ? first_known(slowest, f.checkpoint_s, kAssumedCheckpoint_s) : Pace{0, "within steps"};

  const auto left = static_cast<double>(std::max<int64_t>(0, t.spec.train.steps - saved));
  const double checkpoints =
      own ? std::floor(left / static_cast<double>(t.spec.train.checkpoint_steps())) + 1 : 0;
  const double one_more = std::max(kLeast_s, kHaste * (step.seconds + checkpoint.seconds));
  Remaining r;
  r.work_s = c.start_s + left * step.seconds + checkpoints * checkpoint.seconds;
  r.lead_s = one_more + limits.grace_s + kReserve_s;
  r.least_s = c.start_s + one_more + r.lead_s + (c.scheduler == "slurm" ? kSlurmIsEarly_s : 0);
  char text[160];
  std::snprintf(text, sizeof text,
                "%.3g s for a step of %.3g s (%s) and a checkpoint of %.3g s (%s), and %.3g s to end in",
                one_more, step.seconds, step.source, checkpoint.seconds, checkpoint.source,
                limits.grace_s + kReserve_s);
  r.lead_from = text;
  return r;
}

}  // namespace isobar::cluster
