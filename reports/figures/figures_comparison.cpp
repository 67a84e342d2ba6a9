// Each set of results compared with the first.
#include <algorithm>

#include "reports/comparison/compare.h"
#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kDots = 10, kLines = 15;  // changes drawn; the table has all

json verdict_colours() {
  return palette::scale_of({kFaster, kSlower, kAsFast, kCannotTell});
}

json rows_of(const std::vector<Change>& changes) {
  json rows = json::array();
  for (const Change& c : changes)
    rows.push_back({{"run", c.label},
                    {"layout", c.layout},
                    {"id", c.after_id},
                    {"before", rounded(c.before_s * 1e3)},
                    {"after", rounded(c.after_s * 1e3)},
                    {"change", rounded(c.ratio - 1)},
                    {"low", rounded(c.lower - 1)},
                    {"high", rounded(c.upper - 1)},
                    {"sees", rounded(c.sees())},
                    {"verdict", c.verdict}});
  return rows;
}

Figure forest(const Comparison& c, const std::string& id) {
  std::vector<Change> shown = c.changes;
  if (shown.size() > kLines) shown.resize(kLines);
  json spec = chart_spec("comparison", {{"rows", rows_of(shown)},
                                        {"before", c.before + " [ms]"},
                                        {"after", c.after + " [ms]"},
                                        {"verdicts", verdict_colours()}});
  return {id, "Comparison", c.after + " against " + c.before,
          std::string("Change of the step time (") + title_of(c.statistic) +
              ") of the same specification, with its 95 % interval" +
              (c.changes.size() > kLines ? "; the " + std::to_string(kLines) + " largest changes"
                                         : std::string()) +
              ". Grey: as fast within 5 %, or undecided." +
              (c.between.df > 0 ? "" : " Without repetitions the noise between runs is assumed."),
          spec};
}

// Step times of both sets, each change a line from grey to blue; without picture of noise, which the forest
// has.
Figure before_after(const ReportData& d, const Comparison& c, const std::string& id) {
  std::vector<Change> shown = c.changes;
  if (shown.size() > kDots) shown.resize(kDots);
  json sets = palette::set_scale(d.sets);
  const auto place = [&](const std::string& set) {
    return std::find(d.sets.begin(), d.sets.end(), set) - d.sets.begin();
  };
  for (const char* part : {"domain", "range"}) {
    const json all = sets[part];
    sets[part] = {all[place(c.before)], all[place(c.after)]};
  }
  json spec =
      chart_spec("before-after",
                 {{"rows", rows_of(shown)},
                  {"set_of_key", "datum.key == 'before' ? " + literal(c.before) + " : " + literal(c.after)},
                  {"sets", sets},
                  {"columns", legend_columns(d.sets)}});
  return {id, "Comparison", "Step time before and after",
          std::string("Step (") + title_of(c.statistic) + ") of the same specification, left: faster" +
              (c.changes.size() > kDots ? "; the " + std::to_string(kDots) + " largest changes." : "."),
          spec};
}

Figure histogram(const Comparison& c, const std::string& id) {
  return {id, "Comparison", "Distribution of the changes",
          "All " + std::to_string(c.changes.size()) + " specifications that both sets have.",
          chart_spec("changes", {{"rows", rows_of(c.changes)}, {"verdicts", verdict_colours()}})};
}

}  // namespace

std::vector<Figure> comparison_figures(const ReportData& d) {
  std::vector<Figure> out;
  for (const Comparison& c : compare(d)) {
    if (c.changes.empty()) continue;
    const std::string number = out.empty() ? "" : "-" + std::to_string(out.size());
    out.push_back(before_after(d, c, "before-after" + number));
    out.push_back(forest(c, "comparison" + number));
    if (c.changes.size() > 10) out.push_back(histogram(c, "changes" + number));
  }
  return out;
}

}  // namespace isobar::report
