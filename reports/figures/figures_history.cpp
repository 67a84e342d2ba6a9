// Step times from commit to commit, from the reference of `isobar check`.
#include <algorithm>
#include <cmath>
#include <map>

#include "reports/comparison/check.h"
#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kCommitLetters = 10;
constexpr double kLeastShown = 0.05;  // least range of the axis, each way

// "3: 0123abc": the number distinguishes updates of one commit.
std::string update_name(const std::string& number, const std::string& commit) {
  return commit.empty() ? number : number + ": " + commit.substr(0, kCommitLetters);
}

struct Mean {
  double sum = 0;
  int n = 0;
  double value() const { return sum / n; }
};

}  // namespace

std::vector<Figure> history_figures(const CheckResult& c, const Reference& reference,
                                    const std::vector<ReferenceRun>& runs) {
  std::map<std::string, std::string> verdicts;  // by id of the checked run
  for (const CheckedSpecification& s : c.specifications)
    if (!s.change.after_id.empty()) verdicts[s.change.after_id] = s.verdict;
  const auto kNow = reference.updates() + 1;
  // Mean of log seconds by specification and update
  std::map<std::string, std::map<int64_t, Mean>> steps;
  std::map<std::string, std::string> verdict, label;
  std::map<int64_t, std::string> names, times;
  const auto add = [&](const ReferenceRun& r, int64_t update) {
    if (r.cpu != c.cpu) return;
    Mean& m = steps[r.experiment][update];
    m.sum += r.measured.log_s, ++m.n;
    label[r.experiment] = r.measured.label;
    names[update] = update_name(update == kNow ? "now" : std::to_string(update), r.commit);
    times[update] = r.time_utc;
    if (update == kNow && verdicts.contains(r.measured.id)) verdict[r.experiment] = verdicts[r.measured.id];
  };
  for (const ReferenceRun& r : reference.runs) add(r, r.update);
  for (const ReferenceRun& r : runs) add(r, kNow);
  json rows = json::array(), order = json::array();
  double least = -kLeastShown, most = kLeastShown;
  for (const auto& [experiment, updates] : steps) {
    const double first = updates.begin()->second.value();
    for (const auto& [update, mean] : updates) {
      const double change = std::exp(mean.value() - first) - 1;
      least = std::min(least, change), most = std::max(most, change);
      rows.push_back({{"run", label[experiment]},
                      {"specification", experiment},
                      {"update", names[update]},
                      {"time", times[update]},
                      {"step", rounded(std::exp(mean.value()) * 1e3)},
                      {"change", rounded(change)},
                      {"verdict", verdict.contains(experiment) ? verdict[experiment] : "not run"},
                      {"now", update == kNow}});
    }
  }
  if (rows.empty()) return {};
  for (const auto& [update, name] : names) order.push_back(name);
  json spec = chart_spec(
      "history",
      {{"rows", std::move(rows)},
       {"updates", order},
       {"angle", names.size() > 6 ? -40 : 0},
       {"format", most - least < 0.3 ? "+.1%" : "+.0%"},
       {"changes", {rounded(least), rounded(most)}},
       {"verdicts", palette::scale_of({kSlower, kFaster, kAsFast, kCannotTell, "new", "not run"})}});
  return {{"history", "History", "Step times over commits",
           "One line a specification: mean of its repetitions, relative to its first entry in the reference. "
           "The colour is this check's verdict against the last update. On " +
               c.cpu + " alone.",
           spec}};
}

}  // namespace isobar::report
