#include "model/records/contention.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "model/base/step_stats.h"
#include "model/base/text/json.h"
#include "model/records/results.h"

namespace isobar::records {
namespace {

constexpr double kLeast = 0.15, kTimes = 3, kTaken = 0.1;
constexpr size_t kSiblings = 4;

// Median of sorted values without the one at `own`.
double median_without(const std::vector<double>& sorted, size_t own) {
  const size_t n = sorted.size() - 1;
  const auto at = [&](size_t k) { return sorted[k < own ? k : k + 1]; };
  return (at((n - 1) / 2) + at(n / 2)) / 2;
}

/// `value` among sorted ones
double median_of_others(const std::vector<double>& sorted, double value) {
  const auto own = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
  return median_without(sorted, static_cast<size_t>(own));
}

bool stands_out(double value, double usual) {
  return value > kLeast && value > kTimes * usual;
}

void mark_scattered(const std::vector<Signs>& trials, std::vector<Contention>& out) {
  std::vector<double> all;
  std::map<int64_t, std::vector<double>> by_ranks;
  for (const Signs& t : trials) {
    if (t.spread < 0) continue;
    all.push_back(t.spread);
    by_ranks[t.ranks].push_back(t.spread);
  }
  std::sort(all.begin(), all.end());
  for (auto& [ranks, spreads] : by_ranks) std::sort(spreads.begin(), spreads.end());
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].spread < 0) continue;
    Contention& c = out[i];
    c.spread = trials[i].spread;
    c.taken = trials[i].taken;
    c.busy = c.spread > kLeast || c.taken > kTaken;
    const std::vector<double>& same = by_ranks.at(trials[i].ranks);
    const std::vector<double>& siblings = same.size() > kSiblings ? same : all;
    if (siblings.size() <= kSiblings) continue;
    c.siblings = median_of_others(siblings, c.spread);
    c.scattered = stands_out(c.spread, c.siblings);
    c.busy = c.taken > kTaken || (c.busy && !c.scattered);
  }
}

void mark_slowed(const std::vector<Signs>& trials, std::vector<Contention>& out) {
  const auto known = [](const Signs& t) { return t.spread >= 0 && t.step_s > 0 && !t.repeated.empty(); };
  std::map<std::string, std::vector<size_t>> repetitions;
  for (size_t i = 0; i < trials.size(); ++i)
    if (known(trials[i])) repetitions[trials[i].repeated].push_back(i);
  struct Slower {
    size_t trial;
    double share;  // of the fastest repetition's time
  };
  std::vector<Slower> found;  // all repetitions but the fastest of each experiment
  std::vector<double> shares;
  for (const auto& [key, of_one] : repetitions) {
    const size_t fastest = *std::min_element(of_one.begin(), of_one.end(), [&](size_t a, size_t b) {
      return trials[a].step_s < trials[b].step_s;
    });
    for (const size_t i : of_one) {
      if (i == fastest) continue;
      found.push_back({i, trials[i].step_s / trials[fastest].step_s - 1});
      shares.push_back(found.back().share);
    }
  }
  if (shares.size() <= kSiblings) return;
  std::sort(shares.begin(), shares.end());
  for (const auto& [i, share] : found)
    if (stands_out(share, median_of_others(shares, share))) out[i].slower = 1 + share;
}

}  // namespace

std::string words_of(const Contention& c) {
  char text[96];
  if (c.scattered)
    std::snprintf(text, sizeof text, "contended: its steps scatter by %.0f %%, its siblings' by %.0f %%",
                  100 * c.spread, 100 * c.siblings);
  else if (c.slower > 1)
    std::snprintf(text, sizeof text, "contended: %.1f times the time of its fastest repetition", c.slower);
  return c.marked() ? text : "";
}

std::vector<Contention> contention_of(const std::vector<Signs>& trials) {
  std::vector<Contention> out(trials.size());
  mark_scattered(trials, out);
  mark_slowed(trials, out);
  return out;
}

void mark_contended(std::vector<RunRecord>& runs) {
  std::vector<Signs> signs;
  for (const RunRecord& r : runs) {
    Signs& s = signs.emplace_back(Signs{.ranks = r.ranks});
    if ((r.run_class != RunClass::ok && r.run_class != RunClass::noisy) || !(r.step_s.median > 0)) continue;
    s.spread = r.step_s.spread();
    s.step_s = r.step_s.median;
    if (!r.on_gpu) s.taken = r.ranks_record.taken().value_or(0);  // a GPU's steps hardly need cores
    s.repeated = experiment_of(r.spec) + text_in(r.provenance, "source");
    if (!r.ranks_record.ranks.empty()) s.repeated += r.ranks_record.ranks[0].host;
  }
  const std::vector<Contention> marks = contention_of(signs);
  for (size_t i = 0; i < runs.size(); ++i) runs[i].contention = marks[i];
}

}  // namespace isobar::records
