#include "bench/cluster/grouping.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/cluster/remaining.h"
#include "bench/sweep/results/resultsdir.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/error.h"

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

}  // namespace isobar::cluster
