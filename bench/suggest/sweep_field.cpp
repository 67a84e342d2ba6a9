#include "bench/suggest/sweep_field.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/text/json.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::suggest {

bool are_by_settings(const sweep::Matrix& matrix) {
  const auto by = std::count_if(matrix.trials.begin(), matrix.trials.end(),
                                [](const sweep::Trial& t) { return t.spec.run.by_settings; });
  if (by != 0 && by != static_cast<int64_t>(matrix.trials.size()))
    throw ConfigError(matrix.trials[0].spec.file, "run.by_settings",
                      "is true in some trials and not in others", "predict all by their settings, or none");
  return by != 0;
}

SweepField::SweepField(const sweep::Matrix& matrix, FieldOptions options)
    : matrix_(matrix), options_(std::move(options)), by_settings_(are_by_settings(matrix)) {
  if (!by_settings_) before_ = perf::load_machine(options_.machine);
  if (!by_settings_ && perf::device_of(before_) == perf::Device::accelerator)
    throw ConfigError(options_.machine, "accelerator", "is not what suggestions are fitted for",
                      "name a machine file of hosts, as isobar calibrate writes it");
  std::map<std::string, size_t> known;
  for (const sweep::Trial& t : matrix.trials) {
    const auto [at, fresh] = known.try_emplace(json_text(to_json(t.spec)), groups_.size());
    if (fresh) groups_.push_back({.candidate = {.spec = t.spec, .view = {}}});
    groups_[at->second].trials.push_back(&t);
    group_of_[t.id] = at->second;
  }
  if (by_settings_) return;
  for (Group& g : groups_) {
    perf::device_of(g.candidate.spec, before_);  // refuses devices that the machine file lacks
    g.candidate.view = models_.view(g.candidate.spec, before_, {.ranks_on_host = options_.ranks_per_node});
  }
}

void SweepField::refresh() {
  for (Group& g : groups_) {
    g.candidate.measured.clear();
    g.done.clear();
    g.failed = false;
  }
  std::vector<records::RunRecord> records;
  problems_.clear();
  measured_ = failed_ = 0;
  if (std::filesystem::exists(options_.results)) records = records::load_runs(options_.results, &problems_);
  std::vector<const records::RunRecord*> usable;
  for (const records::RunRecord& r : records)
    if (perf::is_usable(r, options_.statistic)) usable.push_back(&r);
  between_ = records::run_to_run_of(usable, options_.statistic);
  std::vector<perf::MeasuredRun> runs;
  for (const records::RunRecord& r : records) take(r, runs);
  refuse_seen(runs);
  if (by_settings_)
    settings_ = perf::SettingsFit(runs);
  else
    machine_ = runs.empty() ? before_ : perf::fit(runs, before_, options_.statistic);
  list_candidates();
}

void SweepField::take(const records::RunRecord& r, std::vector<perf::MeasuredRun>& runs) {
  const bool repeat = !r.repeats.empty();  // another measurement of a trial, not a new one
  const auto at = group_of_.find(repeat ? r.repeats : r.id);
  if (at == group_of_.end()) return;  // of another sweep file
  Group& g = groups_[at->second];
  if (r.complete && !repeat) g.done.insert(r.id);
  const bool failed = r.complete && !repeat && r.run_class != records::RunClass::ok;
  failed_ += failed ? 1 : 0;
  // A disturbed run has shown that it can run: a repetition may be undisturbed.
  g.failed = g.failed || (failed && r.run_class != records::RunClass::noisy);
  if (!perf::is_usable(r, options_.statistic)) return;
  g.candidate.measured.push_back(perf::measured_run(r, options_.statistic, between_));
  runs.push_back(g.candidate.measured.back());
  measured_ += repeat ? 0 : 1;
}

void SweepField::list_candidates() {
  candidates_.clear();
  shown_.clear();
  complete_ = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& g = groups_[i];
    complete_ += static_cast<int64_t>(g.done.size());
    if (g.candidate.measured.empty() && g.failed) continue;  // cannot run
    g.candidate.trials_left = 0;
    for (const sweep::Trial* t : g.trials) g.candidate.trials_left += can_run(g, *t) ? 1 : 0;
    candidates_.push_back(g.candidate);
    shown_.push_back(i);
  }
}

std::string SweepField::why_nothing() const {
  return "no trial was measured: of " + std::to_string(trials()) + ", " + std::to_string(failed_) +
         " failed or were too noisy to count, and " +
         std::to_string(trials() - static_cast<int64_t>(complete_)) + " could not be run";
}

perf::Outlook SweepField::look(int64_t count) const {
  const perf::SuggestOptions options{.count = static_cast<size_t>(count), .seed = options_.seed};
  return by_settings_ ? perf::look_ahead(candidates_, settings_, options)
                      : perf::look_ahead(candidates_, machine_, options);
}

std::vector<const sweep::Trial*> SweepField::trials_of(const std::vector<perf::Suggestion>& next) const {
  std::vector<const sweep::Trial*> out;
  for (const perf::Suggestion& s : next) {
    const Group& g = groups_[shown_[s.candidate]];
    out.push_back(*std::find_if(g.trials.begin(), g.trials.end(), [&](const sweep::Trial* t) {
      return can_run(g, *t) && std::find(out.begin(), out.end(), t) == out.end();
    }));
  }
  return out;
}

bool SweepField::can_run(const Group& g, const sweep::Trial& t) const {
  return !g.done.contains(t.id) && !tried_.contains(t.id);
}

void SweepField::refuse_seen(const std::vector<perf::MeasuredRun>& runs) const {
  if (!before_.fit) return;
  const std::vector<std::string>& seen = before_.fit->runs;
  for (const perf::MeasuredRun& r : runs)
    if (std::find(seen.begin(), seen.end(), r.id) != seen.end())
      throw ConfigError(options_.machine, "fit.runs",
                        "names run " + r.id + " of " + options_.results + ", which would count twice",
                        "name the machine file that the fit started from (isobar calibrate)");
}

namespace {

constexpr int64_t kRound = 4;  // trials between two fits by default

}  // namespace

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

RoundsOutcome suggest_rounds(SweepField& field, const RoundOptions& o, const RunPart& run,
                             const std::function<void(const perf::Outlook&)>& show) {
  const bool rounds = o.bound > 0;
  RoundsOutcome out;
  for (int64_t n = 0; !field.none_can_run(); ++n) {
    int64_t wanted = o.count > 0 ? o.count : kRound;
    if (o.max_trials > 0) wanted = std::min(wanted, o.max_trials - field.complete());
    const perf::Outlook outlook = field.look(std::max<int64_t>(0, wanted));
    show(outlook);
    if (!rounds && (!o.run || n > 0)) break;
    // Predictions without measurements settle nothing, however certain.
    out.left = outlook.regret;
    out.reached = rounds && out.left < o.bound && field.measured_trials() > 0;
    if (outlook.next.empty() || out.reached) {
      if (rounds && !out.reached && field.complete() < field.trials()) out.complete = false;
      break;
    }
    sweep::Matrix part;
    for (const sweep::Trial* t : field.trials_of(outlook.next)) part.trials.push_back(*t);
    const sweep::SweepOutcome outcome = run(part);
    for (const sweep::Trial& t : part.trials) field.tried(t);
    if (!outcome.complete()) out.complete = false;
    if (outcome.interrupted || (o.stop && *o.stop)) break;
    field.refresh();
  }
  return out;
}

}  // namespace isobar::suggest
