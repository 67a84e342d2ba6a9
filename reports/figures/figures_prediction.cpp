// Quality of predictions: predicted against measured, error by layout, and the terms of each prediction.
#include <algorithm>
#include <cmath>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr const char* kSection = "Accuracy of the predictions";
constexpr const char* kErrorTitle = "error of the predicted step (right: too long)";

json colour_of_was() {
  json j = nominal("was");
  j["scale"] = palette::scale_of({"held out", "in the fit"});
  return j;
}

Figure scatter(const ReportData& d) {
  double low = INFINITY, high = 0;
  for (const ReportRun* r : d.predicted()) {
    low = std::min({low, r->measured_lower(), r->prediction->lower});
    high = std::max({high, r->measured_upper(), r->prediction->upper});
  }
  low *= 1e3 * 0.95;
  high *= 1e3 * 1.05;
  const bool logarithmic = high > 8 * low;
  if (!logarithmic) low = 0;
  const json scale = {{"domain", {low, high}}, {"nice", false}, {"type", logarithmic ? "log" : "linear"}};
  const auto axis = [&](const char* field, const char* title) {
    json j = quantity(field, title);
    j["scale"] = scale;
    return j;
  };
  json x = axis("measured", "measured step [ms]");
  x["axis"] = {{"tickCount", 8}};
  const auto off_by = [&](double factor) {
    const double from = std::max(low, low / factor), to = std::min(high, high / factor);
    return json{
        {"data", {{"values", {{{"v", from}, {"p", factor * from}}, {{"v", to}, {"p", factor * to}}}}}},
        {"mark", {{"type", "line"}, {"color", palette::kMuted}, {"strokeWidth", 0.9}}},
        {"encoding", {{"x", axis("v", "measured step [ms]")}, {"y", axis("p", "predicted step [ms]")}}}};
  };
  json shape = nominal("was");
  shape["scale"] = {{"domain", {"held out", "in the fit"}}, {"range", {"circle", "square"}}};
  json spec = runs_spec();
  // A square: page_spec.js narrows both sides
  spec["width"] = spec["height"] = 330;
  spec["autosize"] = "pad";
  spec["layer"] = {
      {{"data", {{"values", {{{"v", low}}, {{"v", high}}}}}},
       {"mark", {{"type", "line"}, {"color", palette::kMuted}, {"strokeDash", {4, 4}}}},
       {"encoding", {{"x", axis("v", "measured step [ms]")}, {"y", axis("v", "predicted step [ms]")}}}},
      off_by(1.1),
      off_by(1 / 1.1),
      {{"transform", {{{"filter", "isValid(datum.predicted)"}}}},
       {"mark", {{"type", "rule"}, {"strokeWidth", 0.8}}},
       {"encoding",
        {{"x", x},
         {"y", axis("low", "predicted step [ms]")},
         {"y2", {{"field", "high"}}},
         {"color", colour_of_was()},
         {"opacity", faded()}}}},
      {{"transform", {{{"filter", "isValid(datum.predicted)"}}}},
       {"mark", {{"type", "rule"}, {"strokeWidth", 0.8}}},
       {"encoding",
        {{"y", axis("predicted", "predicted step [ms]")},
         {"x", axis("measured_low", "measured step [ms]")},
         {"x2", {{"field", "measured_high"}}},
         {"color", colour_of_was()},
         {"opacity", faded()}}}},
      {{"params", {{{"name", "brush"}, {"select", {{"type", "interval"}}}}}},
       {"transform", {{{"filter", "isValid(datum.predicted)"}}}},
       {"mark", {{"type", "point"}, {"filled", true}, {"size", 60}}},
       {"encoding",
        {{"x", x},
         {"y", axis("predicted", "predicted step [ms]")},
         {"color", colour_of_was()},
         {"shape", shape},
         {"opacity", faded()},
         {"tooltip", run_tips(d)}}}}};
  mark_per_run(spec, {3, 4, 5});
  return {
      "predicted-measured", kSection, "Predicted against measured step time",
      std::string("One point per run (") + title_of(d.statistic) +
          "). Bars: 80 % intervals. Dashed: both agree; thin: 10 % off. Only held-out runs, which the fit "
          "did not use, test it.",
      spec};
}

Figure residuals(const ReportData& d) {
  json y = nominal("layout");
  y["sort"] = {{"field", "layout_error"}, {"op", "max"}, {"order", "descending"}};
  json x = quantity("error", kErrorTitle);
  x["axis"] = signed_percent();
  json spec = runs_spec();
  spec["height"] = {{"step", 26}};
  spec["transform"] = {{{"filter", "isValid(datum.error)"}},
                       {{"joinaggregate", {{{"op", "median"}, {"field", "error"}, {"as", "layout_error"}}}},
                        {"groupby", {"layout"}}}};
  spec["layer"] = {
      zero_line(quantity("zero", kErrorTitle)),
      {{"mark", {{"type", "point"}, {"size", 42}}},
       {"encoding",
        {{"y", y}, {"x", x}, {"color", colour_of_was()}, {"opacity", faded()}, {"tooltip", run_tips(d)}}}},
      {{"mark",
        {{"type", "tick"}, {"color", palette::kInk}, {"thickness", 2.5}, {"height", {{"band", 0.8}}}}},
       {"encoding",
        {{"y", y},
         {"x",
          {{"aggregate", "median"},
           {"field", "error"},
           {"type", "quantitative"},
           {"title", kErrorTitle}}}}}}};
  mark_per_run(spec, {1});
  return {"residuals", kSection, "Errors by layout",
          std::string("One dot per run (") + title_of(d.statistic) +
              "), tick: their median. Dots all on one side of zero: a bias of the model for that layout; on "
              "both sides: scatter.",
          spec};
}

Figure by_term(const ReportData& d, const ChartData& s) {
  const json y = layouts_axis("measured", false);
  std::vector<std::string> names;
  for (const NamedField& t : s.terms) names.push_back(t.name);
  json colour = nominal("part");
  colour["scale"] = palette::scale_of(names);
  colour["legend"] = legend_of(names, letters_of_runs(s));
  json spec = layouts_spec("measured", false);
  spec["transform"].push_back({{"filter", "isValid(datum.predicted)"}});
  json parts = folded(s.terms);
  parts.push_back({{"calculate", "datum.value / datum.predicted"}, {"as", "share"}});
  json x = quantity("value", "step [ms]");
  x["stack"] = "zero";
  spec["layer"] = {
      {{"transform", parts},
       {"mark", {{"type", "bar"}, {"height", {{"band", 0.75}}}}},
       {"encoding",
        {{"y", y},
         {"x", x},
         {"order", {{"field", "order"}, {"type", "quantitative"}}},
         {"color", colour},
         {"opacity", faded()},
         {"tooltip",
          {tip("run", "run"), tip("part", "term"), tip("value", "predicted [ms]", ".3~g"),
           tip("share", "share of the step", ".1%"), tip("id", "id")}}}}},
      {{"mark", {{"type", "tick"}, {"color", palette::kInk}, {"thickness", 2}, {"height", {{"band", 0.9}}}}},
       {"encoding", {{"y", y}, {"x", quantity("measured", "step [ms]")}, {"tooltip", run_tips(d)}}}}};
  return {"step-by-term", "Where the time goes", "Predicted step time by term",
          "Each bar is the predicted step of a layout's fastest run, split into its terms; the tick is the "
          "measured step (" +
              std::string(title_of(d.statistic)) + ").",
          spec};
}

}  // namespace

std::vector<Figure> prediction_figures(const ReportData& d, const ChartData& s) {
  std::vector<Figure> out;
  if (d.predicted().empty()) return out;
  out.push_back(scatter(d));
  if (d.predicted().size() > 1) out.push_back(residuals(d));
  if (!s.terms.empty()) out.push_back(by_term(d, s));
  return out;
}

}  // namespace isobar
