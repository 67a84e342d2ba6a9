#include "bench/cluster/preview.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/cluster/grouping.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/text/printed.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;

constexpr const char* kName = "isobar-00000000";  // a submitted job's name is random

std::vector<const sweep::Trial*> left_of(const sweep::Matrix& m, const sweep::SweepSpec& sweep,
                                         const sweep::SweepOptions& o, const ClusterSpec& c) {
  const std::vector<std::string> open = sweep::open_jobs(o.results);
  std::vector<const sweep::Trial*> left;
  for (const sweep::Trial& t : m.trials) {
    const sweep::TrialDir dir(o.results, t, sweep.warmup, c.retries + 1);
    const bool over = dir.finished() && !(o.retry_failed && *dir.verdict() != records::RunClass::ok);
    if (!over && std::find(open.begin(), open.end(), sweep::claimed_by(dir.path())) == open.end())
      left.push_back(&t);
  }
  return left;
}

/// Jobs in a row that a chained trial takes; other trials fit theirs.
int64_t in_a_row(const PlannedJob& p) {
  const double useful = static_cast<double>(p.time_s) - p.lead_s;
  if (p.lead_s <= 0 || useful <= 0) return 1;
  return std::max<int64_t>(1, std::llround(std::ceil(p.work_s / useful)));
}

}  // namespace

json preview_json(const sweep::Matrix& m, const sweep::SweepSpec& sweep, const sweep::SweepOptions& o,
                  const ClusterSpec& c, const Scheduler& scheduler, const std::string& after) {
  refuse_incomplete(c);
  json out = {{"scheduler", c.scheduler}, {"jobs", json::array()}};
  double most = 0, expected = 0;
  for (const PlannedJob& p : plan_jobs(left_of(m, sweep, o, c), sweep, c, o.results)) {
    json trials = json::array();
    for (const sweep::Trial* t : p.trials) trials.push_back(t->id);
    const int64_t jobs = in_a_row(p);
    const double asked = node_hours(p, c, static_cast<double>(jobs * p.time_s));
    most += asked;
    expected += node_hours(p, c, p.work_s);
    out["jobs"].push_back({{"nodes", p.nodes},
                           {"ranks_a_node", p.ranks_a_node},
                           {"time_s", p.time_s},
                           {"in_a_row", jobs},
                           {"node_hours", asked},
                           {"trials", trials},
                           {"script", scheduler.script(c, request_of(p, kName, o, c, after))}});
  }
  out["node_hours"] = {{"most", most}, {"expected", expected}};
  return out;
}

std::string preview_text(const json& p) {
  if (p.at("jobs").empty()) return "no job: every trial has its verdict, or is in a job that is still open\n";
  std::string out = "jobs  nodes  ranks a node  time limit  trials  node hours\n", scripts;
  std::set<std::string> shapes;
  int64_t jobs = 0;
  for (const json& j : p["jobs"]) {
    const int64_t n = j["in_a_row"], time_s = j["time_s"];
    jobs += n;
    out += printed("%4lld  %5lld  %12lld  %10s  %6zu  %10.3g\n", static_cast<long long>(n),
                   j["nodes"].get<long long>(), j["ranks_a_node"].get<long long>(), hours(time_s).c_str(),
                   j["trials"].size(), j["node_hours"].get<double>());
    const std::string shape = j["nodes"].dump() + " " + j["ranks_a_node"].dump();
    if (shapes.insert(shape).second)
      scripts += printed("\n# script of jobs of %lld nodes with %lld ranks each\n",
                         j["nodes"].get<long long>(), j["ranks_a_node"].get<long long>()) +
                 j["script"].get<std::string>();
  }
  const json& h = p["node_hours"];
  return out +
         printed("%lld %s jobs; %.3g node hours expected, %.3g if every job takes its whole time\n",
                 static_cast<long long>(jobs), p["scheduler"].get<std::string>().c_str(),
                 h["expected"].get<double>(), h["most"].get<double>()) +
         scripts;
}

}  // namespace isobar::cluster
