#include "bench/cli/sweep/sweep_suggest.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/cli/words/options.h"
#include "bench/suggest/suggest_text.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/progress.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

int rehearse_finished(const SuggestArguments& a, const suggest::SweepField& field, const std::string& results,
                      bool as_json) {
  if (field.measured_trials() < 2)
    throw ConfigError(results, "", "holds fewer than two measured trials of this sweep",
                      "run the sweep first: a rehearsal plays finished trials");
  constexpr double kEnough = 0.02;
  Progress bar("rehearsal", 2 * a.rehearse, !as_json);
  perf::RehearsalOptions options{.seeds = a.rehearse,
                                 .seed = a.seed,
                                 .statistic = a.statistic,
                                 .enough = a.until.empty() ? kEnough : suggest::regret_bound(a.until)};
  if (a.count > 0) options.first = options.round = static_cast<size_t>(a.count);
  if (a.max_trials > 0) options.max_trials = static_cast<size_t>(a.max_trials);
  options.progress = [&](int64_t done, int64_t) { bar.update(done, ""); };
  const perf::Rehearsal r = perf::rehearse(field.candidates(), field.before(), options);
  bar.finish();
  if (as_json)
    std::printf("%s\n", json_text(suggest::json_of(r, options), 1).c_str());
  else
    std::fputs(suggest::text_of(r, options).c_str(), stdout);
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

int suggest_trials(const SuggestArguments& a, const sweep::Matrix& matrix, suggest::FieldOptions of,
                   bool as_json, const volatile std::sig_atomic_t* stop, const suggest::RunPart& run) {
  const bool rounds = !a.until.empty();
  const double bound = rounds ? suggest::regret_bound(a.until) : 0;
  const bool by_settings = suggest::are_by_settings(matrix);
  if (by_settings && !as_json) std::puts("by settings: no net is described, and no machine is asked");
  if (by_settings && a.rehearse > 0)
    throw ConfigError("isobar sweep", "--rehearse", "replays predictions of nets, and none is described",
                      "describe it under `net:`, or use --suggest");
  if (of.machine.empty() && !by_settings)
    throw ConfigError("isobar sweep", "--machine", "is missing",
                      "suggestions need a machine file, as isobar calibrate writes it");
  of.statistic = a.statistic, of.seed = a.seed;
  suggest::SweepField field(matrix, of);
  field.refresh();
  if (!as_json)
    for (const std::string& p : field.problems()) std::fprintf(stderr, "warning: %s\n", p.c_str());
  if (a.rehearse > 0) return rehearse_finished(a, field, of.results, as_json);
  if (field.none_can_run())
    throw ConfigError(of.results, "", "holds failed trials only",
                      "look at why they failed (isobar report), or use --retry-failed");
  json history = json::array();
  const suggest::RoundsOutcome o = suggest::suggest_rounds(
      field, {.count = a.count, .run = a.run, .bound = bound, .max_trials = a.max_trials, .stop = stop}, run,
      [&](const perf::Outlook& outlook) {
        if (as_json) {
          history.push_back(suggest::json_of(field, outlook));
        } else {
          std::fputs(suggest::text_of(field, outlook).c_str(), stdout);
          std::fflush(stdout);
        }
      });
  const bool nothing = rounds && field.measured_trials() == 0;
  if (as_json) {
    json out =
        rounds || a.run ? json{{"rounds", history}, {"measured", field.measured_trials()}} : history[0];
    if (rounds) out["reached"] = o.reached;
    std::printf("%s\n", json_text(out, 1).c_str());
  } else if (rounds && !nothing) {
    std::printf("%s is %s: expected regret %.2f %% with %lld of %lld trials measured\n", a.until.c_str(),
                o.reached ? "reached" : "not reached", 100 * o.left,
                static_cast<long long>(field.measured_trials()), static_cast<long long>(field.trials()));
  }
  if (nothing)
    std::fprintf(stderr,
                 "isobar sweep: %s -> see why with `isobar report %s -o OUT`, or use --retry-failed\n",
                 field.why_nothing().c_str(), of.results.c_str());
  return nothing || !o.complete ? 1 : 0;
}

}  // namespace isobar::cli
