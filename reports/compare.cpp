#include "reports/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/statistics.h"

namespace isobar {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLevel = 0.05;

using RunsOfSet = std::vector<const ReportRun*>;

std::vector<double> logs_of(const RunsOfSet& g) {
  std::vector<double> out;
  out.reserve(g.size());
  for (const ReportRun* r : g) out.push_back(std::log(r->measured()));
  return out;
}

// Of the difference of two groups' means.
Noise pooled(const RunsOfSet& a, const RunsOfSet& b, const Noise& between) {
  return {between.variance * (1 / static_cast<double>(a.size()) + 1 / static_cast<double>(b.size())),
          between.df};
}

Noise welch(const RunsOfSet& a, const RunsOfSet& b) {
  double variance = 0, weight = 0;
  for (const RunsOfSet* g : {&a, &b}) {
    const auto n = static_cast<double>(g->size());
    for (const ReportRun* r : *g) {
      const Noise own = noise_inside(r->run.measured_steps(), r->statistic);
      const double v = own.variance / (n * n);
      variance += v;
      weight += v * v / own.df;
    }
  }
  return {variance, variance * variance / weight};
}

// The label without the set's name and the number of the repetition.
std::string label_of(const ReportRun& r) {
  std::string s = r.label;
  if (s.starts_with(r.set + ", ")) s.erase(0, r.set.size() + 2);
  if (const size_t at = s.rfind(" #"); at != std::string::npos) s.erase(at);
  return s;
}

Change change_of(const RunsOfSet& before, const RunsOfSet& after, const Noise& noise) {
  Change c;
  c.label = label_of(*before[0]);
  c.layout = before[0]->layout;
  c.before_id = before[0]->run.id;
  c.after_id = after[0]->run.id;
  c.runs_before = before.size();
  c.runs_after = after.size();
  const double x = mean_of(logs_of(before)), y = mean_of(logs_of(after));
  c.before_s = std::exp(x);
  c.after_s = std::exp(y);
  c.ratio = std::exp(y - x);
  const double error = std::sqrt(noise.variance);
  if (!(error > 0) || !(noise.df > 0)) {
    c.lower = c.upper = c.p = kNaN;
    return c;
  }
  const double width = student_quantile(1 - kLevel, noise.df) * error;
  c.lower = std::exp(y - x - width);
  c.upper = std::exp(y - x + width);
  c.p = 2 * (1 - student_cdf(std::abs(y - x) / error, noise.df));
  return c;
}

void judge(std::vector<Change>& changes) {
  std::vector<double> p;
  p.reserve(changes.size());
  for (const Change& c : changes) p.push_back(c.p);
  const std::vector<double> q = adjusted(p);
  for (size_t i = 0; i < changes.size(); ++i) {
    Change& c = changes[i];
    c.q = q[i];
    c.verdict = std::isnan(c.q) ? "not tested"
                : c.q > kLevel  ? "no difference seen"
                : c.ratio < 1   ? "faster"
                                : "slower";
  }
}

}  // namespace

size_t Comparison::count(const std::string& verdict) const {
  return static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(), [&](const Change& c) { return c.verdict == verdict; }));
}

std::vector<Comparison> compare(const ReportData& d) {
  std::map<std::string, std::map<std::string, RunsOfSet>> groups;  // specification -> set -> runs
  for (const ReportRun* r : d.ok()) groups[experiment_of(r->run.spec)][r->set].push_back(r);
  Noise between;
  for (const auto& [key, sets] : groups)
    for (const auto& [set, runs] : sets) {
      const auto df = static_cast<double>(runs.size() - 1);
      between.variance += df * variance_of(logs_of(runs));
      between.df += df;
    }
  const bool repetitions = between.df >= 3;
  if (repetitions) between.variance /= between.df;

  std::vector<Comparison> out;
  for (size_t i = 1; i < d.sets.size(); ++i) {
    Comparison c;
    c.before = d.sets[0];
    c.after = d.sets[i];
    c.repetitions = repetitions;
    c.statistic = d.statistic;
    std::vector<double> logs;
    for (const auto& [key, sets] : groups) {
      const auto a = sets.find(c.before), b = sets.find(c.after);
      c.only_before += a != sets.end() && b == sets.end() ? 1 : 0;
      c.only_after += a == sets.end() && b != sets.end() ? 1 : 0;
      if (a == sets.end() || b == sets.end()) continue;
      c.changes.push_back(
          change_of(a->second, b->second,
                    repetitions ? pooled(a->second, b->second, between) : welch(a->second, b->second)));
      logs.push_back(std::log(c.changes.back().ratio));
    }
    judge(c.changes);
    std::stable_sort(c.changes.begin(), c.changes.end(), [](const Change& a, const Change& b) {
      return std::abs(std::log(a.ratio)) > std::abs(std::log(b.ratio));
    });
    if (!logs.empty()) {
      const double mean = mean_of(logs);
      const auto n = static_cast<double>(logs.size());
      const double width =
          logs.size() > 1 ? student_quantile(1 - kLevel, n - 1) * std::sqrt(variance_of(logs) / n) : kNaN;
      c.ratio = std::exp(mean);
      c.lower = std::exp(mean - width);
      c.upper = std::exp(mean + width);
    }
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace isobar
