// Each set of results compared with the first.
#include <algorithm>
#include <cmath>

#include "reports/comparison/compare.h"
#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr size_t kDots = 10, kLines = 15;  // changes drawn; the table has all

json verdict_colour() {
  json j = nominal("verdict");
  j["scale"] = palette::scale_of({kFaster, kSlower, kAsFast, kCannotTell});
  j["legend"] = {{"columns", 4}};
  return j;
}

json percent_axis(const char* field) {
  json x = quantity(field, "change of the step time (left: faster)");
  x["axis"] = signed_percent();
  return x;
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
  json y = nominal("run");
  y["sort"] = {{"field", "change"}, {"op", "min"}, {"order", "ascending"}};
  const json tips = {tip("run", "run"),
                     tip("before", c.before + " [ms]", ".4~g"),
                     tip("after", c.after + " [ms]", ".4~g"),
                     tip("change", "change", "+.1%"),
                     tip("low", "95 % interval from", "+.1%"),
                     tip("high", "to", "+.1%"),
                     tip("sees", "seen from", ".0%"),
                     tip("verdict", "verdict"),
                     tip("id", "id")};
  json spec = base_spec(rows_of(shown));
  spec["height"] = {{"step", 19}};
  spec["layer"] = {
      zero_line(percent_axis("zero")),
      {{"mark", {{"type", "rule"}, {"strokeWidth", 1.6}}},
       {"encoding",
        {{"y", y}, {"x", percent_axis("low")}, {"x2", {{"field", "high"}}}, {"color", verdict_colour()}}}},
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 60}}},
       {"encoding",
        {{"y", y}, {"x", percent_axis("change")}, {"color", verdict_colour()}, {"tooltip", tips}}}}};
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
  json y = nominal("run"), from = quantity("before", "step [ms]"), x = quantity("step", "step [ms]");
  y["sort"] = {{"field", "before"}, {"op", "min"}, {"order", "descending"}};
  for (json* axis : {&from, &x}) (*axis)["scale"] = {{"zero", false}, {"padding", 12}};
  json colour = set_colour(d);
  colour["field"] = "of";
  const auto place = [&](const std::string& set) {
    return std::find(d.sets.begin(), d.sets.end(), set) - d.sets.begin();
  };
  for (const char* part : {"domain", "range"}) {
    const json all = colour["scale"][part];
    colour["scale"][part] = {all[place(c.before)], all[place(c.after)]};
  }
  json spec = base_spec(rows_of(shown));
  spec["height"] = {{"step", 24}};
  spec["layer"] = {
      {{"mark", {{"type", "rule"}, {"strokeWidth", 1.6}, {"color", palette::kMuted}}},
       {"encoding", {{"y", y}, {"x", from}, {"x2", {{"field", "after"}}}}}},
      {{"transform",
        {{{"fold", {"before", "after"}}, {"as", {"key", "step"}}},
         {{"calculate", "datum.key == 'before' ? " + literal(c.before) + " : " + literal(c.after)},
          {"as", "of"}}}},
       {"mark", {{"type", "point"}, {"filled", true}, {"size", 95}}},
       {"encoding",
        {{"y", y},
         {"x", x},
         {"color", colour},
         {"tooltip",
          {tip("run", "run"), tip("of", "results"), tip("step", "step [ms]", ".4~g"),
           tip("change", "change", "+.1%"), tip("verdict", "verdict")}}}}}};
  return {id, "Comparison", "Step time before and after",
          std::string("Step (") + title_of(c.statistic) + ") of the same specification, left: faster" +
              (c.changes.size() > kDots ? "; the " + std::to_string(kDots) + " largest changes." : "."),
          spec};
}

Figure histogram(const Comparison& c, const std::string& id) {
  json x = percent_axis("change");
  x["bin"] = {{"maxbins", 30}};
  x["axis"] = {{"format", "+.1%"}};
  json spec = base_spec(rows_of(c.changes));
  spec["height"] = 200;
  spec["mark"] = {{"type", "bar"}};
  spec["encoding"] = {
      {"x", x},
      {"y", {{"aggregate", "count"}, {"type", "quantitative"}, {"title", "specifications"}}},
      {"color", verdict_colour()},
      {"tooltip", {{{"aggregate", "count"}, {"title", "specifications"}}, tip("verdict", "verdict")}}};
  return {id, "Comparison", "Distribution of the changes",
          "All " + std::to_string(c.changes.size()) + " specifications that both sets have.", spec};
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

}  // namespace isobar
