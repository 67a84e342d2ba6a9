#include "reports/story.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/base/system/shared_files.h"
#include "model/base/system/shell_quoted.h"
#include "reports/comparison/statistics.h"
#include "reports/live/data_wait.h"
#include "reports/style/palette.h"
#include "reports/tables/report_tables.h"
#include "reports/tables/tables.h"

namespace isobar::report {
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

std::string percent(double share) {
  return say(std::abs(share) < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
}

// The fastest run with another layout than `best`.
const ReportRun* runner_up(const ReportData& d, const ReportRun& best) {
  const ReportRun* next = nullptr;
  for (const ReportRun* r : d.ok())
    if (r->layout != best.layout && (!next || r->rate() > next->rate())) next = r;
  return next;
}

// P value of the lead, given the error of both runs: their steps', and that between repetitions.
double chance_of_lead(const ReportData& d, const ReportRun& best, const ReportRun& next) {
  const double t = std::log(best.rate() / next.rate()) / std::hypot(best.measured_error, next.measured_error);
  return 2 * (1 - student_cdf(t, d.between.test_df()));
}

constexpr double kSure = 0.05;

std::string lead(const ReportData& d, const ReportRun& best, const ReportRun& next) {
  const double p = chance_of_lead(d, best, next);
  const std::string chance = p < 0.001 ? "p\u00a0<\u00a00.001" : say("p = %.2g", p);
  return ", " + percent(best.rate() / next.rate() - 1) + " more than the best of another layout (" +
         next.label + (p < kSure ? "): more than noise (" : "): that may be noise (") + chance + ")";
}

void fastest(const ReportData& d, std::vector<Sentence>& out) {
  const ReportRun* best = d.best();
  if (!best) return;
  const auto batch = static_cast<double>(best->run.spec.train.global_batch);
  std::string s =
      best->label + " trains " + rate(best->rate()) + " (" + title_of(d.statistic) +
      say("; 80 %% interval %s to %s)", significant(batch / best->measured_upper(), 4).text.c_str(),
          significant(batch / best->measured_lower(), 4).text.c_str());
  std::string brief = "Every run has this layout.";
  if (const ReportRun* next = runner_up(d, *best)) {
    s += lead(d, *best, *next);
    brief = "It leads the next layout by " + percent(best->rate() / next->rate() - 1) +
            (chance_of_lead(d, *best, *next) < kSure ? ": more than noise." : ": that may be noise.");
  }
  out.push_back({.head = "Best layout", .text = s + ".", .anchor = "throughput-by-layout", .brief = brief});
}

// Adds how the fastest run's step time divides over classes of ops, and the gain if the most wasteful class
// reached the roofline.
void bound(const ReportData& d, std::vector<Sentence>& out) {
  const ReportRun* run = ops_run(d);
  if (!run) return;
  struct Sum {
    double seconds = 0, least = 0;
  };
  std::map<std::string, Sum> classes;
  double all = 0;
  const Roof roof = d.predictor ? roof_of(*run, *d.predictor) : Roof{};
  for (const OpLine& l : op_lines(d, *run, true)) {
    Sum& c = classes[palette::class_of_op(l.kind, l.lane)];
    c.seconds += l.seconds;
    // The roofline bounds computation only, not data loading or the network
    const bool bounded = l.lane == "compute" && palette::class_of_op(l.kind, l.lane) != "data";
    c.least += bounded ? std::min(l.seconds, roof.seconds(l.flops, l.bytes)) : 0;
    all += l.seconds;
  }
  if (!(all > 0)) return;
  const auto most = std::max_element(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return a.second.seconds < b.second.seconds;
  });
  const double step = run->run.step_s.median;
  // plural class names: "norms", "copies", "data"
  const bool many = most->first.ends_with('s') && most->first != "loss";
  const std::string verb = many ? " take " : " takes ";
  std::string s = "In " + run->label + " " + (most->first == "data" ? "reading data" : most->first) + verb +
                  percent(most->second.seconds / all) + " of all op time";
  std::string brief = percent(most->second.seconds / all) + " of op time is " + most->first;
  if (most->second.least > 0) {
    const std::string reached = percent(most->second.least / most->second.seconds) + " of the roofline";
    s += ", at " + reached;
    brief += ", at " + reached;
  }
  brief += ".";
  if (waits_for_data(run->run)) {
    brief += " The step waits for data during " + percent(run->run.data_wait_s / step) + " of its time.";
    s += "; the step waits for data during " + percent(run->run.data_wait_s / step) +
         " of its time: " + why_it_waits(run->run, d.predictor ? &*d.predictor : nullptr);
  }
  const Sum* gain = nullptr;
  std::string gain_name;
  for (const auto& [name, c] : classes)
    if (c.least > 0 && (!gain || c.seconds - c.least > gain->seconds - gain->least))
      gain = &c, gain_name = name;
  // Communication and data have no roofline, so the gain is about computation alone then.
  if (gain)
    s += (most->second.least > 0 ? ". Largest potential gain: "
                                 : ". Within the computation the largest potential gain is from ") +
         gain_name +
         (most->second.least > 0 ? " at the roofline would save " : ": at the roofline it would save ") +
         significant(1e3 * (gain->seconds - gain->least), 3).text + " of " + significant(1e3 * step, 3).text +
         " ms a step";
  else if (!d.predictor)
    s += ". A report with --machine adds the roofline";
  out.push_back(
      {.head = "What bounds it", .text = s + ".", .anchor = gain ? "roofline" : "ops", .brief = brief});
}

// The layout with the largest median prediction error, and the op that contributes most.
std::string worst_predicted(const ReportData& d) {
  std::map<std::string, std::vector<double>> by_layout;
  for (const ReportRun* r : d.predicted())
    if (d.score(false).runs == 0 || !r->prediction->in_fit) by_layout[r->layout].push_back(r->error());
  std::string s;
  const auto size = [](const auto& entry) { return std::abs(median_of(entry.second)); };
  const auto worst = std::max_element(by_layout.begin(), by_layout.end(),
                                      [&](const auto& a, const auto& b) { return size(a) < size(b); });
  const auto side = [](double error) {
    return percent(std::abs(error)) + (error < 0 ? " too short" : " too long");
  };
  if (worst != by_layout.end() && by_layout.size() > 1)
    s = " Worst is " + worst->first + ", its step predicted " + side(median_of(worst->second)) +
        " (median of " + std::to_string(worst->second.size()) +
        (worst->second.size() == 1 ? " run)" : " runs)");
  const ReportRun* run = ops_run(d);
  if (!run) return s.empty() ? s : s + ".";
  OpLine op;
  double most = 0;
  for (const OpLine& l : op_lines(d, *run, true))
    if (std::isfinite(l.predicted_s) && std::abs(l.predicted_s - l.seconds) > most) {
      most = std::abs(l.predicted_s - l.seconds);
      op = l;
    }
  if (most > 0.02 * run->measured())
    s += (s.empty() ? " The worst op is " : ", and the worst op is ") + op.path + ", " +
         side(op.predicted_s / op.seconds - 1) + " by " + significant(1e3 * most, 2).text + " ms a step";
  return s.empty() ? s : s + ".";
}

void predictions(const ReportData& d, std::vector<Sentence>& out) {
  const bool held_out = d.score(false).runs > 0;
  const Score s = d.score(!held_out);
  if (s.runs == 0) return;
  std::string text =
      say("On %zu run%s that %s, the predicted step (%s) is off by %.1f %% (median); %.0f %% lie in "
          "their 80 %% interval.",
          s.runs, s.runs == 1 ? "" : "s", held_out ? "the fit did not use" : "the fit used",
          title_of(d.statistic), 100 * s.median_error, 100 * s.coverage);
  text += worst_predicted(d);
  std::string brief = say("%.0f %% of %zu %s runs lie in their 80 %% interval.", 100 * s.coverage, s.runs,
                          held_out ? "unseen" : "fitted");
  if (s.coverage < 0.7 && s.runs >= 10) {
    text += " Its intervals are too narrow.";
    brief += " Its intervals are too narrow.";
  }
  out.push_back(
      {.head = "What the predictor got wrong", .text = text, .anchor = "predicted-measured", .brief = brief});
}

std::string brief_of(const Comparison& c) {
  return c.after + say(": %zu faster, %zu slower, %zu as fast, %zu undecided.", c.count(kFaster),
                       c.count(kSlower), c.count(kAsFast), c.count(kCannotTell));
}

void changes(const std::vector<Comparison>& comparisons, std::vector<Sentence>& out) {
  for (const Comparison& c : comparisons) {
    if (c.changes.empty()) {
      out.push_back({"Comparison", c.before + " and " + c.after + " have no specification in common.", ""});
      continue;
    }
    std::string s = sentence_of(c);
    if (c.between.df == 0)
      s += " Without repetitions the noise between runs is assumed (" + percent(c.between.sigma) + ").";
    if (c.only_before + c.only_after > 0)
      s += say(" %zu specifications are only in the first set, %zu only in the second.", c.only_before,
               c.only_after);
    out.push_back({.head = "Change", .text = s, .anchor = "comparison", .brief = brief_of(c)});
  }
}

bool on_busy_machine(const ReportData& d) {
  const std::vector<const ReportRun*> ok = d.ok();
  const auto busy = std::count_if(ok.begin(), ok.end(), [](const auto* r) { return r->run.contention.busy; });
  return 2 * busy > static_cast<std::ptrdiff_t>(ok.size());
}

void busy(const ReportData& d, std::vector<Sentence>& out) {
  if (!on_busy_machine(d)) return;
  std::vector<double> spreads, taken;
  for (const ReportRun* r : d.ok()) {
    spreads.push_back(r->run.contention.spread);
    taken.push_back(r->run.contention.taken);
  }
  const double others = median_of(taken);
  const std::string scatter = "steps scatter by " + percent(median_of(spreads)),
                    had = others > 0 ? "other programs had " + percent(others) + " of the cores, and " : "";
  out.push_back(
      {.head = "Busy machine",
       .text = "Measured on a busy machine: " + had + scatter +
               " in the median run. Intervals are that wide; on a quiet machine they would be "
               "narrow.",
       .anchor = "table-runs",
       .brief = (others > 0 ? "Other programs had " + percent(others) + " of the cores, and s" : "S") +
                scatter.substr(1) + ": intervals are wide."});
}

void disturbed(const ReportData& d, std::vector<Sentence>& out) {
  const std::vector<const ReportRun*> marked = d.contended();
  std::map<std::string, size_t> classes;
  for (const ReportRun* r : d.failed())
    ++classes[r->run.run_class == records::RunClass::ok ? "ok, untimed" : records::name_of(r->run.run_class)];
  std::string s, brief;
  if (!marked.empty()) {
    brief = say("%zu of %zu runs were disturbed.", marked.size(), d.ok().size());
    const auto by = [](const ReportRun* r) {
      return std::max(r->run.contention.spread, r->run.contention.slower - 1);
    };
    const ReportRun* worst = *std::max_element(marked.begin(), marked.end(),
                                               [&](const auto* a, const auto* b) { return by(a) < by(b); });
    const auto repeats = std::count_if(d.runs.begin(), d.runs.end(),
                                       [](const ReportRun& r) { return !r.run.repeats.empty(); });
    s = say("%zu of %zu runs were disturbed, most of all %s (%s). A fit gives those whose steps scatter "
            "little weight",
            marked.size(), d.ok().size(), worst->label.c_str(),
            records::words_of(worst->run.contention).c_str()) +
        (repeats > 0 ? "; " + std::to_string(repeats) + (repeats == 1 ? " was" : " were") + " repeated."
                     : ".");
  }
  if (!classes.empty()) {
    s += (s.empty() ? "" : " ") + std::to_string(d.failed().size()) + " of " + std::to_string(d.runs.size()) +
         " runs did not finish:";
    for (const auto& [name, n] : classes) s += " " + std::to_string(n) + " " + name + ",";
    s.back() = '.';
    brief +=
        (brief.empty() ? "" : " ") + say("%zu of %zu runs did not finish.", d.failed().size(), d.runs.size());
  }
  if (s.empty() && d.runs.size() > 1)
    s = on_busy_machine(d) ? "All runs alike, by what else the machine did; every run finished."
                           : "Nothing: every run finished, and none scatters more than comparable runs.";
  if (!s.empty())
    out.push_back({.head = "Disturbed or failed",
                   .text = s,
                   .anchor = classes.empty() ? "table-runs" : "table-failed",
                   .brief = brief.empty() ? s : brief});
}

// Adds what slowed runs beside what was expected of them.
void advice(const ReportData& d, std::vector<Sentence>& out) {
  constexpr size_t kMost = 3;
  std::vector<const ReportRun*> slow;
  for (const ReportRun& r : d.runs)
    if (!r.run.advice.empty()) slow.push_back(&r);
  if (slow.empty()) return;
  std::string s;
  for (size_t i = 0; i < std::min(kMost, slow.size()); ++i)
    s += (s.empty() ? "" : " ") + slow[i]->label + ": " + slow[i]->run.advice.front() + ".";
  if (slow.size() > kMost) s += say(" And %zu other runs were slower than expected.", slow.size() - kMost);
  out.push_back({"Advice", s, "table-runs"});
}

// Files of a results directory, as command-line arguments.
struct Files {
  std::string sweep = "SWEEP", config = "CONFIG", machine = "MACHINE", results;
  size_t planned = 0;  // trials
};

Files files_of(const ReportData& d, size_t set) {
  Files f{.results = shell_quoted(d.dirs[set].string())};
  const nlohmann::json sweep = json_if_there(d.dirs[set] / "sweep.json");
  const auto take = [&](const char* key, std::string& to) {
    if (const auto it = sweep.find(key); it != sweep.end() && it->is_string())
      to = shell_quoted(it->get<std::string>());
  };
  if (sweep.is_object()) {
    take("file", f.sweep), take("base", f.config);
    if (const auto trials = sweep.find("trials"); trials != sweep.end() && trials->is_array())
      f.planned = trials->size();
  }
  if (!d.machine_file.empty()) f.machine = shell_quoted(d.machine_file.string());
  return f;
}

// Suggests repetitions if a set has none, else `isobar check` to watch for regressions.
void next_of_comparison(const ReportData& d, const std::vector<Comparison>& comparisons,
                        std::vector<Sentence>& out) {
  const Files f = files_of(d, d.sets.size() - 1);
  const bool told = std::all_of(comparisons.begin(), comparisons.end(),
                                [](const Comparison& c) { return c.count(kCannotTell) == 0; });
  const bool drawn = std::any_of(comparisons.begin(), comparisons.end(),
                                 [](const Comparison& c) { return !c.changes.empty(); });
  Sentence s{"What to run next", "", drawn ? "comparison" : ""};
  if (told) {
    s.text = "Nothing for this comparison. To check later changes against " + d.sets.back() + ":";
    s.brief = "Nothing; this checks later changes:";
    s.command = "isobar check " + f.results + " --reference reference.jsonl --update";
  } else {
    s.text = "Repetitions in each set, on a quiet machine, for what is undecided; for " + d.sets.back() + ":";
    s.brief = "Repetitions on a quiet machine, in each set:";
    s.command = "isobar sweep " + f.sweep + " --repeat 3 --results " + f.results;
  }
  out.push_back(std::move(s));
}

// Suggests the smallest next step: trials that have not run, repetitions if the lead may be noise or runs
// were contended, held-out runs if predictions were not tested, a machine file if there is none.
void next(const ReportData& d, const std::vector<Comparison>& comparisons, std::vector<Sentence>& out) {
  const ReportRun* best = d.best();
  if (!best) return;
  if (d.sets.size() > 1) return next_of_comparison(d, comparisons, out);
  const ReportRun* second = runner_up(d, *best);
  const double p = second ? chance_of_lead(d, *best, *second) : 0;
  const Files f = files_of(d, 0);
  const std::string again = "isobar sweep " + f.sweep + " --repeat 3 --results " + f.results;
  const bool by_settings = !d.runs.empty() && d.runs[0].run.spec.run.by_settings;
  const std::string machine = by_settings ? "" : " --machine " + f.machine;
  Sentence s{"What to run next", "", "throughput-by-layout"};
  if (f.planned > d.runs.size()) {
    s.text = say("The rest of the sweep: %zu of its %zu trials have no result yet.",
                 f.planned - d.runs.size(), f.planned);
    s.command = "isobar sweep " + f.sweep + " --results " + f.results;
  } else if (second && (!(p < kSure) || best->run.contention.marked() || second->run.contention.marked())) {
    s.text = "Repetitions of " + best->name + " and " + second->name + ", on a quiet machine: the lead is " +
             (p < kSure ? "of contended runs." : "within noise.") +
             " This suggests the most informative trials:";
    s.brief = "Repetitions of the two best layouts, on a quiet machine:";
    s.command = again + machine + " --suggest 4";
  } else if (d.predicted().empty() && !by_settings) {
    s.text = "A calibration of this machine: it adds predictions and rooflines to the report:";
    s.command = "isobar calibrate -o machine.yaml";
  } else if (d.score(false).runs == 0 && d.ok().size() >= 4) {
    s.text = "A fit that holds out half of the runs, because only held-out runs test predictions.";
    s.command =
        "isobar fit " + f.results + machine + " --holdout 0.5 -o fitted." + (by_settings ? "json" : "yaml");
  } else if (d.between.df == 0 && d.ok().size() > 1) {
    s.text = "Repetitions: there are none, so the variation from run to run is assumed (" +
             percent(d.between.sigma) + ").";
    s.command = again;
  } else {
    int64_t most = 1;
    for (const ReportRun* r : d.ok()) most = std::max(most, r->run.ranks);
    s.text = "Twice as many ranks as any run had, predicted from these coefficients:";
    s.command =
        "isobar search " + f.config + " --machine " + f.machine + " --gpus " + std::to_string(2 * most);
  }
  if (s.brief.empty()) s.brief = s.text;
  out.push_back(std::move(s));
}

}  // namespace

std::vector<Sentence> story(const ReportData& d, const std::vector<Comparison>& comparisons) {
  std::vector<Sentence> out;
  busy(d, out);
  changes(comparisons, out);
  fastest(d, out);
  bound(d, out);
  predictions(d, out);
  disturbed(d, out);
  advice(d, out);
  next(d, comparisons, out);
  return out;
}

}  // namespace isobar::report
