#include "bench/cli/sweep_suggest.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "bench/cli/measured.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "model/base/progress.h"
#include "perfmodel/fitting/layout_fit.h"
#include "perfmodel/predict.h"
#include "perfmodel/rehearse.h"
#include "perfmodel/suggest.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr int64_t kRound = 4;  // trials between two fits by default

// The trials of a sweep grouped by specification, with their results.
class Field {
 public:
  Field(const Matrix& matrix, const SuggestContext& context, const SuggestArguments& a)
      : matrix_(matrix), context_(context), a_(a), before_(load_machine(context.machine)) {
    if (device_of(before_) == Device::accelerator)
      throw ConfigError(context.machine, "accelerator", "is not what suggestions are fitted for",
                        "name a machine file of hosts, as isobar calibrate writes it");
    std::map<std::string, size_t> known;
    for (const Trial& t : matrix.trials) {
      const auto [at, fresh] = known.try_emplace(json_text(to_json(t.spec)), groups_.size());
      if (fresh) groups_.push_back({.candidate = {.spec = t.spec, .view = {}}});
      groups_[at->second].trials.push_back(&t);
      group_of_[t.id] = at->second;
    }
    for (Group& g : groups_) {
      device_of(g.candidate.spec, before_);  // refuses devices that the machine file lacks
      g.candidate.view = models_.view(g.candidate.spec, before_, {.ranks_on_host = context.ranks_per_node});
    }
  }

  // Reads the results directory and fits.
  void refresh() {
    for (Group& g : groups_) {
      g.candidate.measured.clear();
      g.done.clear();
      g.failed = false;
    }
    std::vector<MeasuredRun> runs;
    std::vector<RunRecord> records;
    problems_.clear();
    measured_ = failed_ = 0;
    if (std::filesystem::exists(context_.results)) records = load_runs(context_.results, &problems_);
    std::vector<const RunRecord*> usable;
    for (const RunRecord& r : records)
      if (is_usable(r, a_.statistic)) usable.push_back(&r);
    between_ = run_to_run_of(usable, a_.statistic);
    for (const RunRecord& r : records) {
      const bool repeat = !r.repeats.empty();  // another measurement of a trial, not a new one
      const auto at = group_of_.find(repeat ? r.repeats : r.id);
      if (at == group_of_.end()) continue;  // of another sweep file
      Group& g = groups_[at->second];
      if (r.complete && !repeat) g.done.insert(r.id);
      const bool failed = r.complete && !repeat && r.run_class != RunClass::ok;
      failed_ += failed ? 1 : 0;
      // A disturbed run has shown that it can run: a repetition may be undisturbed.
      g.failed = g.failed || (failed && r.run_class != RunClass::noisy);
      if (!is_usable(r, a_.statistic)) continue;
      g.candidate.measured.push_back(measured(r, a_.statistic, between_));
      runs.push_back(g.candidate.measured.back());
      measured_ += repeat ? 0 : 1;
    }
    refuse_seen(runs);
    machine_ = runs.empty() ? before_ : fit(runs, before_, {.statistic = a_.statistic});
    candidates_.clear();
    shown_.clear();
    complete_ = 0;
    for (size_t i = 0; i < groups_.size(); ++i) {
      Group& g = groups_[i];
      complete_ += static_cast<int64_t>(g.done.size());
      if (g.candidate.measured.empty() && g.failed) continue;  // cannot run
      g.candidate.trials_left = 0;
      for (const Trial* t : g.trials) g.candidate.trials_left += can_run(g, *t) ? 1 : 0;
      candidates_.push_back(g.candidate);
      shown_.push_back(i);
    }
  }
  bool none_can_run() const { return candidates_.empty(); }
  // The error where no trial was measured and none is left.
  std::string why_nothing() const {
    return "no trial was measured: of " + std::to_string(trials()) + ", " + std::to_string(failed_) +
           " failed or were too noisy to count, and " +
           std::to_string(trials() - static_cast<int64_t>(complete_)) + " could not be run";
  }

  Outlook look(int64_t count) const {
    return look_ahead(candidates_, machine_, {.count = static_cast<size_t>(count), .seed = a_.seed});
  }
  // The trials of suggested specifications: the next repetitions that were not run.
  std::vector<const Trial*> trials_of(const std::vector<Suggestion>& next) const {
    std::vector<const Trial*> out;
    for (const Suggestion& s : next) {
      const Group& g = groups_[shown_[s.candidate]];
      out.push_back(*std::find_if(g.trials.begin(), g.trials.end(), [&](const Trial* t) {
        return can_run(g, *t) && std::find(out.begin(), out.end(), t) == out.end();
      }));
    }
    return out;
  }
  void tried(const Trial& t) { tried_.insert(t.id); }

  const std::string& name(size_t candidate) const { return groups_[shown_[candidate]].trials[0]->name; }
  const Assignments& axes(size_t candidate) const { return groups_[shown_[candidate]].trials[0]->axes; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const Machine& before() const { return before_; }
  const std::vector<std::string>& problems() const { return problems_; }
  int64_t measured_trials() const { return measured_; }
  const RunToRun& between() const { return between_; }
  int64_t complete() const { return complete_; }
  int64_t trials() const { return static_cast<int64_t>(matrix_.trials.size()); }

 private:
  struct Group {
    Candidate candidate;
    std::vector<const Trial*> trials = {};
    std::set<std::string> done = {};  // ids with a final verdict
    bool failed = false;              // one of them is not ok
  };
  // A trial that could not be launched under this command is not suggested to it again.
  bool can_run(const Group& g, const Trial& t) const {
    return !g.done.contains(t.id) && !tried_.contains(t.id);
  }
  void refuse_seen(const std::vector<MeasuredRun>& runs) const {
    if (!before_.fit) return;
    const std::vector<std::string>& seen = before_.fit->runs;
    for (const MeasuredRun& r : runs)
      if (std::find(seen.begin(), seen.end(), r.id) != seen.end())
        throw ConfigError(context_.machine, "fit.runs",
                          "names run " + r.id + " of " + context_.results + ", which would count twice",
                          "name the machine file that the fit started from (isobar calibrate)");
  }

  const Matrix& matrix_;
  const SuggestContext& context_;
  const SuggestArguments& a_;
  Machine before_, machine_;
  LayoutModels models_;
  std::vector<Group> groups_;
  std::map<std::string, size_t> group_of_;  // by trial
  std::vector<Candidate> candidates_;       // can run, or did
  std::vector<size_t> shown_;               // their groups
  std::set<std::string> tried_;
  std::vector<std::string> problems_;
  RunToRun between_;
  int64_t measured_ = 0, failed_ = 0, complete_ = 0;  // trials
};

json json_of(const Field& f, size_t candidate, double seconds, double lower, double upper, double chance) {
  json axes = json::object();
  for (const auto& [key, value] : f.axes(candidate)) axes[key] = value;
  return {{"name", f.name(candidate)},
          {"axes", std::move(axes)},
          {"step_s", seconds},
          {"lo_s", lower},
          {"hi_s", upper},
          {"chance_best", chance}};
}

json json_of(const Field& f, const Outlook& o, Statistic statistic) {
  const Belief& b = o.beliefs[o.choice];
  json choice = json_of(f, o.choice, b.step.value, b.step.lower, b.step.upper, b.chance);
  choice["measured"] = f.candidates()[o.choice].measured.size();
  json next = json::array();
  const std::vector<const Trial*> trials = f.trials_of(o.next);
  for (size_t i = 0; i < o.next.size(); ++i) {
    const Suggestion& s = o.next[i];
    json j = json_of(f, s.candidate, s.step.value, s.step.lower, s.step.upper, s.chance);
    j["id"] = trials[i]->id;
    j["repetition"] = trials[i]->repetition;
    j["regret_gain"] = s.gain;
    j["rank_seconds"] = s.cost_s;
    next.push_back(std::move(j));
  }
  return {{"trials", f.trials()},           {"complete", f.complete()}, {"measured", f.measured_trials()},
          {"expected_regret", o.regret},    {"choice", choice},         {"next", next},
          {"statistic", name_of(statistic)}};
}

void print_outlook(const Field& f, const Outlook& o, Statistic statistic) {
  const Belief& b = o.beliefs[o.choice];
  std::printf(
      "%lld of %lld trials measured (%s; %s). Best so far, by fit and measurements:\n  %s: %.3f ms a step "
      "(%.3f - %.3f), %s, the best with a probability of %.0f %%; expected regret %.1f %%\n",
      static_cast<long long>(f.measured_trials()), static_cast<long long>(f.trials()), title_of(statistic),
      words_of(f.between()).c_str(), f.name(o.choice).c_str(), 1e3 * b.step.value, 1e3 * b.step.lower, 1e3 * b.step.upper,
      f.candidates()[o.choice].measured.empty() ? "not measured yet" : "measured", 100 * b.chance,
      100 * o.regret);
  if (o.next.empty()) return;
  std::printf("  %-16s  %10s  %23s  %6s  %8s  %8s  %s\n", "next trials", "ms a step", "80 % interval", "best",
              "regret", "rank s", "");
  const std::vector<const Trial*> trials = f.trials_of(o.next);
  for (size_t i = 0; i < o.next.size(); ++i) {
    const Suggestion& s = o.next[i];
    std::printf("  %-16s  %10.3f  %10.3f - %10.3f  %4.0f %%  %+6.2f %%  %8.1f  %s\n", trials[i]->id.c_str(),
                1e3 * s.step.value, 1e3 * s.step.lower, 1e3 * s.step.upper, 100 * s.chance, -100 * s.gain, s.cost_s,
                trials[i]->name.c_str());
  }
  std::fflush(stdout);
}

double mean_of(const std::vector<size_t>& v) {
  double sum = 0;
  for (size_t x : v) sum += static_cast<double>(x);
  return sum / static_cast<double>(v.size());
}

int rehearse_finished(const SuggestArguments& a, const Field& field, const SuggestContext& context) {
  const double enough = a.until.empty() ? 0.02 : regret_bound(a.until);
  Progress bar("rehearsal", 2 * a.rehearse, !context.json);
  RehearsalOptions options{.seeds = a.rehearse, .seed = a.seed, .statistic = a.statistic, .enough = enough};
  if (a.count > 0) options.first = options.round = static_cast<size_t>(a.count);
  if (a.max_trials > 0) options.max_trials = static_cast<size_t>(a.max_trials);
  options.progress = [&](int64_t done, int64_t) { bar.update(done, ""); };
  const Rehearsal r = rehearse(field.candidates(), field.before(), options);
  bar.finish();
  json out = {{"regret", enough},
              {"seeds", a.rehearse},
              {"held_for", options.hold},
              {"statistic", name_of(a.statistic)}};
  if (!context.json)
    std::printf(
        "Trials until the choice was within %.1f %% of the best measured (%s), %lld seeds, first %zu random; "
        "kept: and\n"
        "stayed there for %zu more trials\n  %-36s  %24s  %24s\n  %-36s  %7s %7s %8s  %7s %7s %8s\n",
        100 * enough, title_of(a.statistic), static_cast<long long>(a.rehearse), options.first, options.hold,
        "", "reached", "kept", "trials chosen by", "mean", "middle", "worst", "mean", "middle", "worst");
  for (const auto& [name, key, plays] :
       {std::tuple{"suggestions", "suggested", &r.suggested},
        std::tuple{"random order, same fit and choice", "random", &r.random},
        std::tuple{"random order, best measured, no fit", "random_no_fit", &r.blind}}) {
    std::vector<size_t> reached, kept;
    for (const Play& p : *plays) {
      reached.push_back(p.reached(enough));
      kept.push_back(p.kept(enough));
    }
    out[key] = {{"reached", reached},
                {"mean_reached", mean_of(reached)},
                {"kept", kept},
                {"mean_kept", mean_of(kept)}};
    std::sort(reached.begin(), reached.end());
    std::sort(kept.begin(), kept.end());
    if (!context.json)
      std::printf("  %-36s  %7.1f %7zu %8zu  %7.1f %7zu %8zu\n", name, mean_of(reached),
                  reached[reached.size() / 2], reached.back(), mean_of(kept), kept[kept.size() / 2],
                  kept.back());
  }
  double stopped = 0, left = 0;
  for (const Play& p : r.suggested) {
    const size_t at = p.stop(enough);
    stopped += static_cast<double>(p.trials[at]) / static_cast<double>(r.suggested.size());
    left += p.regret[at] / static_cast<double>(r.suggested.size());
  }
  out["until"] = {{"mean_trials", stopped}, {"mean_regret", left}};
  if (context.json)
    std::printf("%s\n", json_text(out, 1).c_str());
  else
    std::printf(
        "--until 'regret<%g%%' would have ended after %.1f trials, with a regret of %.1f %% (means)\n",
        100 * enough, stopped, 100 * left);
  return 0;
}

}  // namespace

void add_suggest_options(CLI::App& sweep, SuggestArguments& a) {
  auto* count =
      sweep.add_option("--suggest", a.count, "Print the N trials that would lower the expected regret most")
          ->check(CLI::Range(1, 10000));
  sweep.add_flag("--run", a.run, "Run the suggested trials")->needs(count);
  sweep.add_option("--until", a.until, "Run suggested trials in rounds until e.g. 'regret<2%'");
  sweep.add_option("--max-trials", a.max_trials, "With --until: stop at this many trials in DIR")
      ->check(CLI::PositiveNumber);
  sweep.add_option("--rehearse", a.rehearse, "Replay a finished sweep with this many seeds")
      ->check(CLI::Range(1, 1000));
  add_statistic_option(sweep, a.statistic, ", in tables and suggestions");
  sweep.add_option("--suggest-seed", a.seed, "Seed of the random draws behind suggestions")
      ->capture_default_str();
}

double regret_bound(const std::string& until) {
  char number[32] = "";
  int end = -1;
  std::sscanf(until.c_str(), " regret < %31[0-9.] %% %n", number, &end);
  double percent = 0;
  const char* const last = number + std::strlen(number);
  const auto [read, error] = std::from_chars(number, last, percent);
  if (end != static_cast<int>(until.size()) || read != last || error != std::errc())
    throw ConfigError("isobar sweep", "--until", "'" + until + "' is not a bound on regret",
                      "write it as 'regret<2%', in quotes");
  return percent / 100;
}

int suggest_trials(const SuggestArguments& a, const Matrix& matrix, const SuggestContext& context,
                   const RunPart& run) {
  const double bound = a.until.empty() ? 0 : regret_bound(a.until);
  if (context.machine.empty())
    throw ConfigError("isobar sweep", "--machine", "is missing",
                      "suggestions need a machine file, as isobar calibrate writes it");
  Field field(matrix, context, a);
  field.refresh();
  if (!context.json)
    for (const std::string& p : field.problems()) std::fprintf(stderr, "warning: %s\n", p.c_str());
  if (a.rehearse > 0) {
    if (field.measured_trials() < 2)
      throw ConfigError(context.results, "", "holds fewer than two measured trials of this sweep",
                        "run the sweep first: a rehearsal plays finished trials");
    return rehearse_finished(a, field, context);
  }

  if (field.none_can_run())
    throw ConfigError(context.results, "", "holds failed trials only",
                      "look at why they failed (isobar report), or use --retry-failed");

  const bool rounds = !a.until.empty();
  const int64_t round = a.count > 0 ? a.count : kRound;
  json history = json::array();
  int code = 0;
  bool reached = false;  // the bound, confirmed by measurements
  double left = 1;       // expected regret
  for (int64_t n = 0;; ++n) {
    if (field.none_can_run()) break;
    int64_t wanted = round;
    if (a.max_trials > 0) wanted = std::min(wanted, a.max_trials - field.complete());
    const Outlook o = field.look(std::max<int64_t>(0, wanted));
    if (context.json)
      history.push_back(json_of(field, o, a.statistic));
    else
      print_outlook(field, o, a.statistic);
    if (!rounds && (!a.run || n > 0)) break;
    // Predictions without measurements settle nothing, however certain.
    left = o.regret;
    reached = rounds && left < bound && field.measured_trials() > 0;
    if (o.next.empty() || reached) {
      if (rounds && !reached && field.complete() < field.trials()) code = 1;
      break;
    }
    Matrix part;
    for (const Trial* t : field.trials_of(o.next)) part.trials.push_back(*t);
    const SweepOutcome outcome = run(part);
    for (const Trial& t : part.trials) field.tried(t);
    if (!outcome.complete()) code = 1;
    if (outcome.interrupted || (context.stop && *context.stop)) break;
    field.refresh();
  }
  const bool ran = rounds || a.run;
  const bool nothing = rounds && field.measured_trials() == 0;
  if (context.json) {
    json out = ran ? json{{"rounds", history}, {"measured", field.measured_trials()}} : history[0];
    if (rounds) out["reached"] = reached;
    std::printf("%s\n", json_text(out, 1).c_str());
  } else if (rounds && !nothing) {
    std::printf("%s is %s: expected regret %.2f %% with %lld of %lld trials measured\n", a.until.c_str(),
                reached ? "reached" : "not reached", 100 * left,
                static_cast<long long>(field.measured_trials()), static_cast<long long>(field.trials()));
  }
  if (nothing)
    std::fprintf(stderr,
                 "isobar sweep: %s -> see why with `isobar report %s -o OUT`, or use --retry-failed\n",
                 field.why_nothing().c_str(), context.results.c_str());
  return nothing ? 1 : code;
}

}  // namespace isobar
