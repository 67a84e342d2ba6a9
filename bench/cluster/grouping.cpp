#include "bench/cluster/grouping.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/sweep/results/resultsdir.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "model/records/results.h"

namespace isobar::cluster {
namespace {

constexpr double kMargin_s = 60;  // time of a job besides its trials

/// Time that a trial needs of its job: the expected work, and the reserve in case it takes longer.
struct Wants {
  double work = 0, room = 0;
  Remaining left;  // of a chained trial
};

Wants wants_of_whole(const sweep::Trial& t, const sweep::SweepSpec& sweep, const ClusterSpec& c) {
  const double limit = sweep::time_limit(sweep.limits, t);
  if (limit + sweep.limits.grace_s + kMargin_s > c.max_time_s)
    throw ConfigError(
        sweep.file, "timeout_s",
        "gives a trial " + std::to_string(std::llround(limit)) +
            " s, and a job there may take no more than cluster.max_time_s = " +
            std::to_string(std::llround(c.max_time_s)) + " s",
        "give a smaller timeout_s, or train.checkpoint_every, from which it goes on in another job");
  const double expected =
      t.forecast ? c.start_s + t.forecast->step_s * static_cast<double>(t.spec.train.steps) : 2 * c.start_s;
  return {.work = std::min(limit, expected), .room = limit, .left = {}};
}

Wants wants_of_chained(const sweep::Trial& t, const sweep::TrialDir& dir, const sweep::SweepSpec& sweep,
                       const ClusterSpec& c) {
  const Remaining left = remaining_of(t, dir, sweep.limits, c);
  if (left.least_s > c.max_time_s)
    throw ConfigError(c.file, "cluster.max_time_s",
                      "is " + std::to_string(std::llround(c.max_time_s)) + " s, and a job needs " +
                          std::to_string(std::llround(std::ceil(left.least_s))) +
                          " s to come to a checkpoint and end in time: " + left.lead_from,
                      "raise it");
  return {.work = left.work_s, .room = left.least_s, .left = left};
}

}  // namespace

std::vector<PlannedJob> plan_jobs(const std::vector<const sweep::Trial*>& trials,
                                  const sweep::SweepSpec& sweep, const ClusterSpec& c,
                                  const std::filesystem::path& results) {
  struct Group {
    double work = 0, longest = 0;
    Remaining left;  // the one with the longest lead
    std::vector<const sweep::Trial*> trials;
  };
  std::vector<PlannedJob> jobs;
  using Places = std::pair<int64_t, int64_t>;  // nodes, and ranks on each
  const auto close = [&](const Places& places, Group& g) {
    // The sum of the expected work, and the whole limit of the longest trial.
    const double asked = 1.25 * g.work + g.longest + sweep.limits.grace_s + kMargin_s;
    const double whole_minutes = 60 * std::ceil(std::max(asked, c.min_time_s) / 60);
    jobs.push_back({.nodes = places.first,
                    .ranks_a_node = places.second,
                    .time_s = static_cast<int64_t>(std::min(whole_minutes, c.max_time_s)),
                    .work_s = g.work,
                    .trials = std::move(g.trials),
                    .lead_s = g.left.lead_s,
                    .lead_from = g.left.lead_from});
    g = {};
  };
  std::map<Places, Group> groups;
  for (const sweep::Trial* t : trials) {
    const Wants w = t->chained() ? wants_of_chained(*t, {results, *t, sweep.warmup}, sweep, c)
                                 : wants_of_whole(*t, sweep, c);
    const Places places{c.nodes(t->ranks()), c.ranks_a_node(t->ranks())};
    Group& g = groups[places];
    const double with =
        1.25 * (g.work + w.work) + std::max(g.longest, w.room) + sweep.limits.grace_s + kMargin_s;
    if (!g.trials.empty() && (g.work + w.work > c.job_time_s || with > c.max_time_s)) close(places, g);
    g.work += w.work;
    g.longest = std::max(g.longest, w.room);
    if (w.left.lead_s > g.left.lead_s) g.left = w.left;
    g.trials.push_back(t);
  }
  for (auto& [places, g] : groups)
    if (!g.trials.empty()) close(places, g);
  return jobs;
}

void bound_limits(sweep::TrialLimits& limits, const std::vector<sweep::Trial>& trials, const ClusterSpec& c) {
  const double room = c.max_time_s - limits.grace_s - kMargin_s;
  if (limits.timeout_given || room <= 0) return;
  if (std::none_of(trials.begin(), trials.end(), [&](const sweep::Trial& t) {
        return !t.chained() && sweep::time_limit(limits, t) > room;
      }))
    return;
  limits.timeout_s = room;
  limits.timeout_given = true;
}

double node_hours(const PlannedJob& job, const ClusterSpec& c, double seconds) {
  const double share = static_cast<double>(job.ranks_a_node) / static_cast<double>(c.ranks_per_node);
  return static_cast<double>(job.nodes) * share * seconds / 3600;
}

JobRequest request_of(const PlannedJob& job, const std::string& name, const sweep::SweepOptions& options,
                      const ClusterSpec& c, const std::string& after) {
  const std::string results = std::filesystem::absolute(options.results).string();
  return {.name = name,
          .nodes = job.nodes + c.spare_nodes,
          .ranks_a_node = job.ranks_a_node,
          .time_s = job.time_s,
          .lead_s = job.lead_s,
          .after = after,
          .cwd = std::filesystem::current_path().string(),
          .command = {options.self, "sweep-job", results, name}};
}

nlohmann::json description_of(const PlannedJob& job, const std::string& name, const sweep::SweepSpec& sweep,
                              const sweep::SweepOptions& options, const ClusterSpec& cluster) {
  using nlohmann::json;
  const sweep::TrialLimits& limits = sweep.limits;
  json out = {{"schema", 1},
              {"name", name},
              {"nodes", job.nodes},
              {"share", node_hours(job, cluster, 3600) / static_cast<double>(job.nodes)},  // of each
              {"time_s", job.time_s},
              {"lead_s", job.lead_s},
              {"lead_from", job.lead_from},
              {"warmup", sweep.warmup},
              {"self", options.self},
              {"needed", job.nodes},
              {"trainer", options.trainer},
              {"rank_output", options.rank_output},
              {"cluster", to_json(cluster)},
              {"limits",
               {{"timeout_s", limits.timeout_s},
                {"timeout_given", limits.timeout_given},
                {"hang_s", limits.hang_s ? json(*limits.hang_s) : json(nullptr)},
                {"memory_limit_mb", limits.memory_limit_mb},
                {"grace_s", limits.grace_s},
                {"noise_limit", limits.noise_limit}}},
              {"trials", json::array()}};
  for (const sweep::Trial* t : job.trials) out["trials"].push_back(sweep::to_json(*t));
  return out;
}

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
  const std::string text = printed(
      "%.3g s for a step of %.3g s (%s) and a checkpoint of %.3g s (%s), and %.3g s to end in", one_more,
      step.seconds, step.source, checkpoint.seconds, checkpoint.source, limits.grace_s + kReserve_s);
  r.lead_from = text;
  return r;
}

}  // namespace isobar::cluster
