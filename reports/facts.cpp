// The three figures in large type of a report's first screen.
#include <algorithm>

#include "model/base/text/printed.h"
#include "reports/story.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

Fact speed_of(const ReportData& d, const ReportRun& best) {
  const auto batch = static_cast<double>(best.run.spec.train.global_batch);
  return {significant(best.rate(), 4).text + " samples/s",
          "80 % interval " + significant(batch / best.measured_upper(), 4).text + " to " +
              significant(batch / best.measured_lower(), 4).text + " (" + title_of(d.statistic) + ")"};
}

Fact error_of(const ReportData& d) {
  const bool held_out = d.score(false).runs > 0;
  const Score s = d.score(!held_out);
  if (s.runs == 0) return {"not predicted", "isobar report --machine FILE adds predictions and their error"};
  return {printed("%.1f %%", 100 * s.median_error),
          "error of the predictor: median of " + std::to_string(s.runs) +
              (held_out ? " runs that its fit did not use" : " runs, all of them fitted")};
}

// Says a mean change only where all specifications that changed agree with it.
Fact change_of(const Comparison& c) {
  const size_t faster = c.count(kFaster), slower = c.count(kSlower), all = c.changes.size();
  const std::string of = " against " + c.before;
  if ((faster > 0 && slower == 0 && c.upper < 1) || (slower > 0 && faster == 0 && c.lower > 1))
    return {printed("%+.1f %%", 100 * (c.ratio - 1)),
            printed("step time%s, 95 %% interval %+.1f to %+.1f %%", of.c_str(), 100 * (c.lower - 1),
                    100 * (c.upper - 1))};
  if (faster > 0 && slower > 0) return {"mixed", "step time" + of + ": some faster, some slower"};
  return c.count(kAsFast) == all ? Fact{"as fast", "step time" + of + ", within 5 %"}
                                 : Fact{"cannot tell", "step time" + of + ": repetitions would tell"};
}

Fact count_of(const Comparison& c) {
  const size_t faster = c.count(kFaster), slower = c.count(kSlower);
  return {printed("%zu of %zu", std::max(faster, slower), c.changes.size()),
          std::string("specifications are ") + (slower > faster ? kSlower : kFaster)};
}

}  // namespace

std::vector<Fact> facts_of(const ReportData& d, const std::vector<Comparison>& comparisons) {
  const ReportRun* best = d.best();
  if (!best) return {};
  if (!comparisons.empty() && !comparisons.front().changes.empty()) {
    const Comparison& c = comparisons.front();
    Fact speed = speed_of(d, *best);
    speed.what = "fastest: " + best->label + ", " + speed.what;
    return {change_of(c), count_of(c), speed};
  }
  const std::string of = std::to_string(d.ok().size()) + (d.ok().size() == 1 ? " run" : " runs");
  return {{best->name, "best layout of " + of}, speed_of(d, *best), error_of(d)};
}

}  // namespace isobar::report
