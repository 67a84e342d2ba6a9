#include "bench/cluster/grouping.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/sweep/jobs.h"
#include "bench/sweep/resultsdir.h"
#include "model/base/error.h"

namespace isobar {
namespace {

constexpr double kMargin_s = 60;  // of a job, besides its trials

double expected_s(const Trial& t, const TrialLimits& limits, const ClusterSpec& c) {
  if (!t.forecast) return std::min(time_limit(limits, t), 2 * c.start_s);
  return std::min(time_limit(limits, t),
                  c.start_s + t.forecast->step_s * static_cast<double>(t.spec.train.steps));
}

}  // namespace

std::vector<PlannedJob> plan_jobs(const std::vector<const Trial*>& trials, const SweepSpec& sweep,
                                  const ClusterSpec& c) {
  struct Group {
    double work = 0, longest = 0;
    std::vector<const Trial*> trials;
  };
  std::vector<PlannedJob> jobs;
  const auto close = [&](int64_t nodes, Group& g) {
    // The sum of what is expected, and for the longest its whole limit.
    const double asked = 1.25 * g.work + g.longest + sweep.limits.grace_s + kMargin_s;
    jobs.push_back({nodes,
                    static_cast<int64_t>(60 * std::ceil(std::clamp(asked, c.min_time_s, c.max_time_s) / 60)),
                    std::move(g.trials)});
    g = {};
  };
  std::map<int64_t, Group> groups;
  for (const Trial* t : trials) {
    const double limit = time_limit(sweep.limits, *t), expected = expected_s(*t, sweep.limits, c);
    if (limit + sweep.limits.grace_s + kMargin_s > c.max_time_s)
      throw ConfigError(sweep.file, "timeout_s",
                        "gives a trial " + std::to_string(std::llround(limit)) +
                            " s, and a job there may take no more than cluster.max_time_s = " +
                            std::to_string(std::llround(c.max_time_s)) + " s",
                        "give a smaller timeout_s");
    Group& g = groups[c.nodes(t->ranks())];
    const double with =
        1.25 * (g.work + expected) + std::max(g.longest, limit) + sweep.limits.grace_s + kMargin_s;
    if (!g.trials.empty() && (g.work + expected > c.job_time_s || with > c.max_time_s))
      close(c.nodes(t->ranks()), g);
    g.work += expected;
    g.longest = std::max(g.longest, limit);
    g.trials.push_back(t);
  }
  for (auto& [nodes, g] : groups)
    if (!g.trials.empty()) close(nodes, g);
  return jobs;
}

nlohmann::json description_of(const PlannedJob& job, const std::string& name, const SweepSpec& sweep,
                              const SweepOptions& options, const ClusterSpec& cluster) {
  using nlohmann::json;
  const TrialLimits& limits = sweep.limits;
  json out = {{"schema", 1},
              {"name", name},
              {"nodes", job.nodes},
              {"time_s", job.time_s},
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
  for (const Trial* t : job.trials) out["trials"].push_back(to_json(*t));
  return out;
}

}  // namespace isobar
