#include "bench/suggest/suggest_rounds.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "model/base/error.h"

namespace isobar::suggest {
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
