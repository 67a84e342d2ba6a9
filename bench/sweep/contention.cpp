#include "bench/sweep/contention.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/sweep/results.h"

namespace isobar {
namespace {

constexpr double kLeast = 0.15, kTimes = 3;
constexpr size_t kSiblings = 4;

// The median of sorted values but the one at `own`.
double median_without(const std::vector<double>& sorted, size_t own) {
  const size_t n = sorted.size() - 1;
  const auto at = [&](size_t k) { return sorted[k < own ? k : k + 1]; };
  return (at((n - 1) / 2) + at(n / 2)) / 2;
}

}  // namespace

std::string words_of(const Contention& c) {
  if (!c.marked) return "";
  char text[96];
  std::snprintf(text, sizeof text, "contended: its steps scatter by %.0f %%, its siblings' by %.0f %%",
                100 * c.spread, 100 * c.siblings);
  return text;
}

std::vector<Contention> contention_of(const std::vector<Scatter>& trials) {
  std::vector<double> all;
  std::map<int64_t, std::vector<double>> by_ranks;
  for (const Scatter& t : trials) {
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
    c.marked = c.spread > kLeast && c.spread > kTimes * c.siblings;
  }
  return out;
}

void mark_contended(std::vector<RunRecord>& runs) {
  std::vector<Scatter> scatter;
  for (const RunRecord& r : runs) {
    const bool timed = (r.run_class == RunClass::ok || r.run_class == RunClass::noisy) && r.step_s.median > 0;
    scatter.push_back({r.ranks, timed ? r.step_s.spread() : -1});
  }
  const std::vector<Contention> marks = contention_of(scatter);
  for (size_t i = 0; i < runs.size(); ++i) runs[i].contention = marks[i];
}

}  // namespace isobar
