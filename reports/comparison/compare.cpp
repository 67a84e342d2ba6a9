#include "reports/comparison/compare.h"

#include <algorithm>
#include <cmath>

#include "model/base/text/printed.h"
#include "reports/comparison/statistics.h"
#include "reports/style/units.h"

namespace isobar::report {
namespace {

constexpr double kLevel = 0.05;
constexpr double kQuietDay = 0.005;  // log sigma between days of a quiet machine, assumed
constexpr double kBusyStep = 0.05;   // log sigma of a run's own steps from which its machine was busy

double mean_log(const Repetitions& g) {
  double sum = 0;
  for (const Measured& r : g) sum += r.log_s;
  return sum / static_cast<double>(g.size());
}

struct Worlds {  // what all changes share
  RunToRun between;
  double day = 0;   // variance of the difference of the two days
  double busy = 0;  // log sigma
};

Worlds worlds_of(const BeforeAfter& groups) {
  std::vector<std::vector<double>> repetitions;
  std::vector<double> before, after;  // errors of runs
  for (const auto& [key, both] : groups)
    for (const Repetitions* runs : {&both.first, &both.second}) {
      repetitions.emplace_back();
      for (const Measured& r : *runs) {
        repetitions.back().push_back(r.log_s);
        (runs == &both.first ? before : after).push_back(std::sqrt(r.own.variance));
      }
    }
  Worlds w{.between = run_to_run(repetitions)};
  for (const std::vector<double>* errors : {&before, &after}) {
    const double median = errors->empty() ? 0 : median_of(*errors), busy = median > kBusyStep ? median : 0;
    w.day += kQuietDay * kQuietDay + busy * busy;
    w.busy = std::max(w.busy, busy);
  }
  return w;
}

// Variance of a change without the day, and with it its degrees of freedom (Satterthwaite 1946).
Noise noise_of(const Repetitions& a, const Repetitions& b, const Worlds& w, double& without_day) {
  double variance = 0, weight = 0;
  const auto add = [&](double v, double df) { variance += v, weight += v * v / df; };
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  add(w.between.sigma * w.between.sigma * (1 / n + 1 / m), w.between.test_df());
  for (const Repetitions* g : {&a, &b})
    for (const Measured& r : *g)
      if (r.own.variance > 0)
        add(r.own.variance / static_cast<double>(g->size() * g->size()), std::max(1.0, r.own.df));
  without_day = variance;
  variance += w.day;
  return {variance, variance * variance / weight};
}

Change change_of(const Repetitions& before, const Repetitions& after, const Noise& noise, double level) {
  const double x = mean_log(before), y = mean_log(after);
  const double width = student_quantile(1 - level, noise.df) * std::sqrt(noise.variance);
  Change c{.label = after[0].label,
           .layout = after[0].layout,
           .before_id = before[0].id,
           .after_id = after[0].id,
           .runs_before = before.size(),
           .runs_after = after.size(),
           .before_s = std::exp(x),
           .after_s = std::exp(y),
           .ratio = std::exp(y - x),
           .lower = std::exp(y - x - width),
           .upper = std::exp(y - x + width),
           .verdict = {}};
  c.verdict = verdict_of(c, kTolerance);
  return c;
}

// The mean change: by the noise of each, or by how much they differ where that is more.
void add_mean(Comparison& c, double variance, const Worlds& w) {
  std::vector<double> logs;
  for (const Change& x : c.changes) logs.push_back(std::log(x.ratio));
  if (logs.empty()) return;
  const auto n = static_cast<double>(logs.size());
  const double mean = mean_of(logs), apart = variance_of(logs) / n;
  const double width = student_quantile(1 - kLevel, std::max(w.between.test_df(), n - 1)) *
                       std::sqrt(std::max(variance / n / n, apart) + w.day);
  c.ratio = std::exp(mean), c.lower = std::exp(mean - width), c.upper = std::exp(mean + width);
}

std::string counted(size_t n, const char* what) {
  return n == 0 ? "" : (std::to_string(n) + " " + what + ", ");
}

}  // namespace

double Change::sees() const {
  return upper / ratio - 1;
}

std::string verdict_of(const Change& c, double tolerance, double least) {
  if (c.lower > 1 && c.ratio > 1 + least) return kSlower;
  if (c.upper < 1 && c.ratio < 1 / (1 + least)) return kFaster;
  return c.lower >= 1 / (1 + tolerance) && c.upper <= 1 + tolerance ? kAsFast : kCannotTell;
}

size_t Comparison::count(const std::string& verdict) const {
  return static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(), [&](const Change& c) { return c.verdict == verdict; }));
}

std::string sentence_of(const Comparison& c) {
  const size_t faster = c.count(kFaster), slower = c.count(kSlower), unknown = c.count(kCannotTell);
  std::string s = "Against " + c.before + ", the step of " + c.after + " (" + title_of(c.statistic) +
                  ") in " + std::to_string(c.changes.size()) +
                  " specifications: " + counted(faster, kFaster) + counted(slower, kSlower) +
                  counted(c.count(kAsFast), "as fast within 5 %") + counted(unknown, "undecided");
  s.replace(s.size() - 2, 2, "");
  if (unknown > 0) {
    std::vector<double> sees;
    for (const Change& x : c.changes)
      if (x.verdict == kCannotTell) sees.push_back(x.sees());
    s += printed(" (such a change would be seen above %.0f %%)", std::ceil(100 * median_of(sees)));
  }
  const bool less = c.upper < 1 && faster > 0 && slower == 0, more = c.lower > 1 && slower > 0 && faster == 0;
  if (less || more)
    s += printed(". In the mean it takes %.1f %% %s time (95 %% interval %+.1f to %+.1f %%)",
                 100 * std::abs(c.ratio - 1), less ? "less" : "more", 100 * (c.lower - 1),
                 100 * (c.upper - 1));
  return s + ".";
}

Measured measured(const ReportRun& r) {
  const double error = records::step_error(r.run, r.statistic);
  const Noise inside = noise_inside(r.run.measured_steps(), r.statistic);
  return {r.run.id, r.name, r.layout, std::log(r.measured()), {error * error, inside.df}};
}

Comparison compare(const BeforeAfter& groups) {
  const Worlds w = worlds_of(groups);
  Comparison c{.between = w.between, .busy = w.busy};
  double shared = 0;
  for (const auto& [key, both] : groups) {
    c.only_before += both.second.empty() ? 1 : 0;
    c.only_after += both.first.empty() ? 1 : 0;
    shared += both.first.empty() || both.second.empty() ? 0 : 1;
  }
  double variance = 0, without_day = 0;
  for (const auto& [key, both] : groups) {
    const auto& [before, after] = both;
    if (before.empty() || after.empty()) continue;
    const Noise noise = noise_of(before, after, w, without_day);
    c.changes.push_back(change_of(before, after, noise, kLevel / shared));
    variance += without_day;
  }
  std::stable_sort(c.changes.begin(), c.changes.end(), [](const Change& a, const Change& b) {
    return std::abs(std::log(a.ratio)) > std::abs(std::log(b.ratio));
  });
  add_mean(c, variance, w);
  return c;
}

std::vector<Comparison> compare(const ReportData& d) {
  std::map<std::string, std::map<std::string, Repetitions>> sets;  // set -> specification -> repetitions
  // A contended run counts where it has no other repetition.
  for (const bool marked : {false, true})
    for (const ReportRun* r : d.ok()) {
      Repetitions& runs = sets[r->set][records::experiment_of(r->run.spec)];
      if (r->run.contention.marked() == marked && !(marked && !runs.empty())) runs.push_back(measured(*r));
    }
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

}  // namespace isobar::report
