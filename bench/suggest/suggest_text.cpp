#include "bench/suggest/suggest_text.h"

#include <algorithm>

#include "model/base/text/printed.h"

namespace isobar::suggest {
namespace {

using nlohmann::json;

json json_of(const SweepField& f, size_t candidate, double seconds, double lower, double upper,
             double chance) {
  json axes = json::object();
  for (const auto& [key, value] : f.axes(candidate)) axes[key] = value;
  return {{"name", f.name(candidate)},
          {"axes", std::move(axes)},
          {"step_s", seconds},
          {"lo_s", lower},
          {"hi_s", upper},
          {"chance_best", chance}};
}

double mean_of(const std::vector<size_t>& v) {
  double sum = 0;
  for (size_t x : v) sum += static_cast<double>(x);
  return sum / static_cast<double>(v.size());
}

// How many trials the plays of one order took, ascending: until the choice was good, and until it stayed so.
struct Trials {
  const char *name, *key;
  std::vector<size_t> reached, kept;
};
std::vector<Trials> trials_of(const perf::Rehearsal& r, double enough) {
  std::vector<Trials> out;
  for (const auto& [name, key, plays] :
       {std::tuple{"suggestions", "suggested", &r.suggested},
        std::tuple{"random order, same fit and choice", "random", &r.random},
        std::tuple{"random order, best measured, no fit", "random_no_fit", &r.blind}}) {
    Trials t{name, key, {}, {}};
    for (const perf::Play& p : *plays) {
      t.reached.push_back(p.reached(enough));
      t.kept.push_back(p.kept(enough));
    }
    out.push_back(std::move(t));
  }
  return out;
}

// Means over the plays: trials after which `--until` would have ended, and the regret then.
std::pair<double, double> stop_of(const perf::Rehearsal& r, double enough) {
  double stopped = 0, left = 0;
  for (const perf::Play& p : r.suggested) {
    const size_t at = p.stop(enough);
    stopped += static_cast<double>(p.trials[at]) / static_cast<double>(r.suggested.size());
    left += p.regret[at] / static_cast<double>(r.suggested.size());
  }
  return {stopped, left};
}

}  // namespace

json json_of(const SweepField& f, const perf::Outlook& o) {
  const perf::Belief& b = o.beliefs[o.choice];
  json choice = json_of(f, o.choice, b.seconds, b.lower, b.upper, b.chance);
  choice["measured"] = f.candidates()[o.choice].measured.size();
  json next = json::array();
  const std::vector<const sweep::Trial*> trials = f.trials_of(o.next);
  for (size_t i = 0; i < o.next.size(); ++i) {
    const perf::Suggestion& s = o.next[i];
    json j = json_of(f, s.candidate, s.seconds, s.lower, s.upper, s.chance);
    j["id"] = trials[i]->id;
    j["repetition"] = trials[i]->repetition;
    j["regret_gain"] = s.gain;
    j["rank_seconds"] = s.cost_s;
    next.push_back(std::move(j));
  }
  return {{"trials", f.trials()},
          {"complete", f.complete()},
          {"measured", f.measured_trials()},
          {"expected_regret", o.regret},
          {"choice", choice},
          {"next", next},
          {"statistic", name_of(f.statistic())}};
}

std::string text_of(const SweepField& f, const perf::Outlook& o) {
  const perf::Belief& b = o.beliefs[o.choice];
  std::string text = printed(
      "%lld of %lld trials measured (%s; %s). Best so far, by fit and measurements:\n  %s: %.3f ms a step "
      "(%.3f - %.3f), %s, the best with a probability of %.0f %%; expected regret %.1f %%\n",
      static_cast<long long>(f.measured_trials()), static_cast<long long>(f.trials()),
      title_of(f.statistic()), perf::words_of(f.between()).c_str(), f.name(o.choice).c_str(), 1e3 * b.seconds,
      1e3 * b.lower, 1e3 * b.upper,
      f.candidates()[o.choice].measured.empty() ? "not measured yet" : "measured", 100 * b.chance,
      100 * o.regret);
  if (o.next.empty()) return text;
  text += printed("  %-16s  %10s  %23s  %6s  %8s  %8s  %s\n", "next trials", "ms a step", "80 % interval",
                  "best", "regret", "rank s", "");
  const std::vector<const sweep::Trial*> trials = f.trials_of(o.next);
  for (size_t i = 0; i < o.next.size(); ++i) {
    const perf::Suggestion& s = o.next[i];
    text += printed("  %-16s  %10.3f  %10.3f - %10.3f  %4.0f %%  %+6.2f %%  %8.1f  %s\n",
                    trials[i]->id.c_str(), 1e3 * s.seconds, 1e3 * s.lower, 1e3 * s.upper, 100 * s.chance,
                    -100 * s.gain, s.cost_s, trials[i]->name.c_str());
  }
  return text;
}

json json_of(const perf::Rehearsal& r, const perf::RehearsalOptions& o) {
  json out = {
      {"regret", o.enough}, {"seeds", o.seeds}, {"held_for", o.hold}, {"statistic", name_of(o.statistic)}};
  for (const Trials& t : trials_of(r, o.enough))
    out[t.key] = {{"reached", t.reached},
                  {"mean_reached", mean_of(t.reached)},
                  {"kept", t.kept},
                  {"mean_kept", mean_of(t.kept)}};
  const auto [stopped, left] = stop_of(r, o.enough);
  out["until"] = {{"mean_trials", stopped}, {"mean_regret", left}};
  return out;
}

std::string text_of(const perf::Rehearsal& r, const perf::RehearsalOptions& o) {
  std::string text = printed(
      "Trials until the choice was within %.1f %% of the best measured (%s), %lld seeds, first %zu random; "
      "kept: and\n"
      "stayed there for %zu more trials\n  %-36s  %24s  %24s\n  %-36s  %7s %7s %8s  %7s %7s %8s\n",
      100 * o.enough, title_of(o.statistic), static_cast<long long>(o.seeds), o.first, o.hold, "", "reached",
      "kept", "trials chosen by", "mean", "middle", "worst", "mean", "middle", "worst");
  for (Trials& t : trials_of(r, o.enough)) {
    std::sort(t.reached.begin(), t.reached.end());
    std::sort(t.kept.begin(), t.kept.end());
    text += printed("  %-36s  %7.1f %7zu %8zu  %7.1f %7zu %8zu\n", t.name, mean_of(t.reached),
                    t.reached[t.reached.size() / 2], t.reached.back(), mean_of(t.kept),
                    t.kept[t.kept.size() / 2], t.kept.back());
  }
  const auto [stopped, left] = stop_of(r, o.enough);
  return text +
         printed(
             "--until 'regret<%g%%' would have ended after %.1f trials, with a regret of %.1f %% (means)\n",
             100 * o.enough, stopped, 100 * left);
}

}  // namespace isobar::suggest
