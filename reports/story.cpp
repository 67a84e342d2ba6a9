#include "reports/story.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reports/statistics.h"
#include "reports/tables.h"

namespace isobar {
namespace {

template <class... Values>
std::string say(const char* pattern, Values... values) {
  char s[512];
  std::snprintf(s, sizeof s, pattern, values...);
  return s;
}

std::string rate(double v) {
  return significant(v, 4).text + " samples/s";
}

// How much slower the best run of any other layout is, and whether that is more than the noise of their
// steps.
std::string runner_up(const ReportData& d, const ReportRun& best) {
  const ReportRun* next = nullptr;
  for (const ReportRun* r : d.ok())
    if (r->layout != best.layout && (!next || r->rate() > next->rate())) next = r;
  if (!next) return "";
  std::string s = " The best run of another layout, " + next->label + ", is " +
                  say("%.1f %%", 100 * (1 - next->rate() / best.rate())) + " slower";
  const Noise a = noise_inside(best.run.measured_steps(), d.statistic),
              b = noise_inside(next->run.measured_steps(), d.statistic);
  const double error = std::sqrt(a.variance + b.variance);
  if (!(error > 0)) return s + "; too few steps to say whether that is noise.";
  const double df = std::pow(a.variance + b.variance, 2) /
                    (a.variance * a.variance / a.df + b.variance * b.variance / b.df);
  const double t = std::abs(std::log(best.measured() / next->measured())) / error;
  const double p = 2 * (1 - student_cdf(t, df));
  return s +
         (p < 0.05 ? say("; that is more than the noise of their steps (p = %.2g). ", p)
                   : say("; that may be noise (p = %.2g). ", p)) +
         (best.label == best.name
              ? "Only repetitions would show how much runs differ from day to day."
              : "See its repetitions for how much runs differ.");
}

void fastest(const ReportData& d, std::vector<Sentence>& out) {
  const ReportRun* best = d.best();
  if (!best) return;
  const auto batch = static_cast<double>(best->run.spec.train.global_batch);
  std::string s =
      best->label + ": " + rate(best->rate()) + " by the " + title_of(d.statistic) +
      say(", %s to %s with a chance of 80 %%", significant(batch / best->measured_upper(), 4).text.c_str(),
          significant(batch / best->measured_lower(), 4).text.c_str());
  if (best->run.step_s.p10 > 0 && best->run.step_s.p90 > 0)
    s += say(" (80 %% of its steps between %s and %s)",
             significant(batch / best->run.step_s.p90, 4).text.c_str(),
             significant(batch / best->run.step_s.p10, 4).text.c_str());
  out.push_back({"Fastest", s + "." + runner_up(d, *best), "throughput-by-layout"});
}

void predictions(const ReportData& d, std::vector<Sentence>& out) {
  const bool held_out = d.score(false).runs > 0;
  const Score s = d.score(!held_out);
  if (s.runs == 0) return;
  std::string text =
      say("On %zu run%s that the fit %s, the predicted step (%s) was off by %.1f %% (middle) and %.1f %% "
          "(mean); %.0f %% lie inside their 80 %% interval, where 80 %% should.",
          s.runs, s.runs == 1 ? "" : "s", held_out ? "never saw" : "was made from", title_of(d.statistic),
          100 * s.median_error, 100 * s.mean_error, 100 * s.coverage);
  const ReportRun* choice = nullptr;
  for (const ReportRun* r : d.predicted()) {
    const auto predicted_rate = [](const ReportRun* x) {
      return static_cast<double>(x->run.spec.train.global_batch) / x->prediction->step_s;
    };
    if (!choice || predicted_rate(r) > predicted_rate(choice)) choice = r;
  }
  const ReportRun* best = d.best();
  if (choice && best && d.sets.size() == 1 && s.runs > 1)
    text += choice == best
                ? " The run it would have chosen is the fastest."
                : " The run it would have chosen, " + choice->label + ", is " +
                      say("%.1f %%", 100 * (1 - choice->rate() / best->rate())) + " slower than the fastest.";
  if (s.coverage < 0.7 && s.runs >= 10) text += " Take its intervals for too narrow.";
  out.push_back({"Predictions", text, "predicted-measured"});
}

void changes(const std::vector<Comparison>& comparisons, std::vector<Sentence>& out) {
  for (const Comparison& c : comparisons) {
    if (c.changes.empty()) {
      out.push_back({"Comparison", c.before + " and " + c.after + " have no specification in common.", ""});
      continue;
    }
    std::string s = "Against " + c.before + ", the step of " + c.after + " (" + title_of(c.statistic) +
                    ") takes " + say("%.1f %%", 100 * std::abs(c.ratio - 1)) +
                    (c.ratio < 1 ? " less time" : " more time");
    if (std::isfinite(c.lower))
      s += say(" (95 %% interval %+.1f to %+.1f %%, geometric mean over %zu specifications)",
               100 * (c.lower - 1), 100 * (c.upper - 1), c.changes.size());
    s += say(": %zu faster, %zu slower, %zu without a difference that can be seen.", c.count("faster"),
             c.count("slower"), c.count("no difference seen") + c.count("not tested"));
    if (!c.repetitions)
      s += " There are no repetitions, so a machine that was slower that day would look like a change.";
    if (c.only_before + c.only_after > 0)
      s += say(" %zu specifications are only in the first set, %zu only in the second.", c.only_before,
               c.only_after);
    out.push_back({"Change", s, "comparison"});
  }
}

void contended(const ReportData& d, std::vector<Sentence>& out) {
  const std::vector<const ReportRun*> marked = d.contended();
  if (marked.empty()) return;
  const ReportRun* worst = *std::max_element(marked.begin(), marked.end(), [](const auto* a, const auto* b) {
    return a->run.contention.spread < b->run.contention.spread;
  });
  const auto repeats =
      std::count_if(d.runs.begin(), d.runs.end(), [](const ReportRun& r) { return !r.run.repeats.empty(); });
  out.push_back(
      {"Contended",
       say("%zu of %zu runs were disturbed by something else: their steps scatter far more than their "
           "siblings' (%s: by %.0f %% of the median, its siblings by %.0f %%). They are kept and shown, and "
           "a "
           "fit hardly believes them; ",
           marked.size(), d.ok().size(), worst->label.c_str(), 100 * worst->run.contention.spread,
           100 * worst->run.contention.siblings) +
           (repeats > 0 ? std::to_string(repeats) + " repeat" + (repeats == 1 ? "" : "s") +
                              " of such runs stand beside them."
                        : "none was repeated."),
       "table-runs"});
}

void failures(const ReportData& d, std::vector<Sentence>& out) {
  std::map<std::string, size_t> classes;
  for (const ReportRun* r : d.failed())
    ++classes[r->run.run_class == RunClass::ok ? "ok, untimed" : name_of(r->run.run_class)];
  if (classes.empty()) return;
  std::string s = std::to_string(d.failed().size()) + " of " + std::to_string(d.runs.size()) + " runs:";
  for (const auto& [name, n] : classes) s += " " + std::to_string(n) + " " + name + ",";
  s.back() = '.';
  out.push_back({"Not finished", s + " They are in no figure but their own.", "table-failed"});
}

}  // namespace

std::vector<Sentence> story(const ReportData& d, const std::vector<Comparison>& comparisons) {
  std::vector<Sentence> out;
  changes(comparisons, out);
  fastest(d, out);
  predictions(d, out);
  contended(d, out);
  failures(d, out);
  return out;
}

}  // namespace isobar
