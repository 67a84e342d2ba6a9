#include "reports/comparison/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/comparison/statistics.h"
#include "reports/style/units.h"

namespace isobar {
namespace {

constexpr double kLevel = 0.05;

std::vector<double> logs_of(const Repetitions& g) {
  std::vector<double> out;
  out.reserve(g.size());
  for (const Measured& r : g) out.push_back(r.log_s);
  return out;
}

// Variance and degrees of freedom of the difference of two means.
Noise pooled(const Repetitions& a, const Repetitions& b, const Noise& between) {
  return {between.variance * (1 / static_cast<double>(a.size()) + 1 / static_cast<double>(b.size())),
          between.df};
}

Noise welch(const Repetitions& a, const Repetitions& b) {
  double variance = 0, weight = 0;
  for (const Repetitions* g : {&a, &b}) {
    const auto n = static_cast<double>(g->size());
    for (const Measured& r : *g) {
      const double v = r.own.variance / (n * n);
      variance += v;
      weight += v * v / r.own.df;
    }
  }
  return {variance, variance * variance / weight};
}

Change change_of(const Repetitions& before, const Repetitions& after, const Noise& noise) {
  Change c;
  c.label = after[0].label;
  c.layout = after[0].layout;
  c.before_id = before[0].id;
  c.after_id = after[0].id;
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

Measured measured(const ReportRun& r) {
  return {r.run.id, r.name, r.layout, std::log(r.measured()),
          noise_inside(r.run.measured_steps(), r.statistic)};
}

Comparison compare(const BeforeAfter& groups) {
  Noise between;
  for (const auto& [key, both] : groups)
    for (const Repetitions* runs : {&both.first, &both.second}) {
      if (runs->size() < 2) continue;
      const auto df = static_cast<double>(runs->size() - 1);
      between.variance += df * variance_of(logs_of(*runs));
      between.df += df;
    }
  Comparison c;
  c.repetitions = between.df >= 3;
  if (c.repetitions) between.variance /= between.df;
  std::vector<double> logs;
  for (const auto& [key, both] : groups) {
    const auto& [before, after] = both;
    c.only_before += after.empty() ? 1 : 0;
    c.only_after += before.empty() ? 1 : 0;
    if (before.empty() || after.empty()) continue;
    c.changes.push_back(
        change_of(before, after, c.repetitions ? pooled(before, after, between) : welch(before, after)));
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
  return c;
}

std::vector<Comparison> compare(const ReportData& d) {
  std::map<std::string, std::map<std::string, Repetitions>> sets;  // set -> specification -> repetitions
  for (const ReportRun* r : d.ok()) sets[r->set][experiment_of(r->run.spec)].push_back(measured(*r));
  std::vector<Comparison> out;
  for (size_t i = 1; i < d.sets.size(); ++i) {
    BeforeAfter groups;
    for (const auto& [key, runs] : sets[d.sets[0]]) groups[key].first = runs;
    for (const auto& [key, runs] : sets[d.sets[i]]) groups[key].second = runs;
    Comparison c = compare(groups);
    c.before = d.sets[0];
    c.after = d.sets[i];
    c.statistic = d.statistic;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace isobar
