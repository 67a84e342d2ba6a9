#include "model/records/contention.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "model/base/step_stats.h"
#include "model/records/results.h"

namespace isobar {
namespace {

constexpr double kLeast = 0.15, kTimes = 3;
constexpr size_t kSiblings = 4;
constexpr double kFar = 2;  // ratio of round trips that separates one core complex from two

// Median of sorted values without the one at `own`.
double median_without(const std::vector<double>& sorted, size_t own) {
  const size_t n = sorted.size() - 1;
  const auto at = [&](size_t k) { return sorted[k < own ? k : k + 1]; };
  return (at((n - 1) / 2) + at(n / 2)) / 2;
}

// Timed trials whose round trip exceeds kFar times their host's shortest; both are stored in `out`.
std::vector<size_t> far_trials(const std::vector<Signs>& trials, std::vector<Contention>& out) {
  std::map<std::string, double> least;  // by host
  for (const Signs& t : trials)
    if (t.spread >= 0 && t.trip_ns > 0) {
      const auto [at, first] = least.try_emplace(t.host, t.trip_ns);
      at->second = std::min(at->second, t.trip_ns);
    }
  std::vector<size_t> far;
  for (size_t i = 0; i < trials.size(); ++i) {
    const Signs& t = trials[i];
    if (t.spread < 0 || t.trip_ns <= 0 || t.trip_ns <= kFar * least.at(t.host)) continue;
    out[i].trip_ns = t.trip_ns, out[i].least_trip_ns = least.at(t.host);
    far.push_back(i);
  }
  return far;
}

// Sets `slower` of the far trials.
void price_far(const std::vector<Signs>& trials, const ExperimentOf& experiment_of,
               std::vector<Contention>& out) {
  const std::vector<size_t> far = far_trials(trials, out);
  if (far.empty()) return;                          // usual case: experiments need not be looked up
  std::map<std::string, std::vector<double>> near;  // step times by experiment
  for (size_t i = 0; i < trials.size(); ++i)
    if (trials[i].spread >= 0 && trials[i].trip_ns > 0 && out[i].trip_ns == 0)
      near[trials[i].host + experiment_of(i)].push_back(trials[i].step_s);
  std::vector<double> seen;
  std::vector<size_t> alone;
  for (const size_t i : far) {
    const auto same = near.find(trials[i].host + experiment_of(i));
    if (same == near.end()) {
      alone.push_back(i);
      continue;
    }
    out[i].slower = trials[i].step_s / quantile(same->second, 0.5);
    seen.push_back(out[i].slower);
  }
  if (seen.empty()) return;
  for (const size_t i : alone) out[i].slower = quantile(seen, 0.5);
}

}  // namespace

bool Contention::far() const {
  return slower > 1 + kLeast;
}

std::string words_of(const Contention& c) {
  char text[96];
  if (c.far()) {
    std::snprintf(text, sizeof text,
                  "contended: its cores lay %.0f ns apart, others' %.0f: %.1f times the time", c.trip_ns,
                  c.least_trip_ns, c.slower);
    return text;
  }
  if (!c.scattered) return "";
  std::snprintf(text, sizeof text, "contended: its steps scatter by %.0f %%, its siblings' by %.0f %%",
                100 * c.spread, 100 * c.siblings);
  return text;
}

std::vector<Contention> contention_of(const std::vector<Signs>& trials, const ExperimentOf& experiment_of) {
  std::vector<double> all;
  std::map<int64_t, std::vector<double>> by_ranks;
  for (const Signs& t : trials) {
    if (t.spread < 0) continue;
    all.push_back(t.spread);
    by_ranks[t.ranks].push_back(t.spread);
  }
  std::sort(all.begin(), all.end());
  for (auto& [ranks, spreads] : by_ranks) std::sort(spreads.begin(), spreads.end());
  std::vector<Contention> out(trials.size());
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].spread < 0) continue;
    Contention& c = out[i];
    c.spread = trials[i].spread;
    const std::vector<double>& alike = by_ranks.at(trials[i].ranks);
    const std::vector<double>& siblings = alike.size() > kSiblings ? alike : all;
    if (siblings.size() <= kSiblings) continue;
    const auto own = std::lower_bound(siblings.begin(), siblings.end(), c.spread) - siblings.begin();
    c.siblings = median_without(siblings, static_cast<size_t>(own));
    c.scattered = c.spread > kLeast && c.spread > kTimes * c.siblings;
  }
  price_far(trials, experiment_of, out);
  return out;
}

void mark_contended(std::vector<RunRecord>& runs) {
  std::vector<Signs> signs;
  for (const RunRecord& r : runs) {
    const bool timed = (r.run_class == RunClass::ok || r.run_class == RunClass::noisy) && r.step_s.median > 0;
    Signs s{.ranks = r.ranks, .spread = timed ? r.step_s.spread() : -1, .step_s = r.step_s.median};
    for (const RankRecord& rank : r.ranks_record.ranks)
      if (const double trip = rank.core_trip_ns.value_or(0); trip > s.trip_ns)
        s.trip_ns = trip, s.host = rank.host;
    signs.push_back(std::move(s));
  }
  const std::vector<Contention> marks =
      contention_of(signs, [&](size_t i) { return experiment_of(runs[i].spec); });
  for (size_t i = 0; i < runs.size(); ++i) runs[i].contention = marks[i];
}

}  // namespace isobar
