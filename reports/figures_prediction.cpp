// Predicted against measured: the scatter, the runs one by one, and what the predicted step is made of.
#include <algorithm>
#include <cmath>

#include "reports/figures.h"

namespace isobar {
namespace {

using nlohmann::json;

json row_of(const ReportRun& r) {
  json j = {{"run", r.label},
            {"id", r.run.id},
            {"measured", r.measured() * 1e3},
            {"p10", r.run.step_s.p10 * 1e3},
            {"p90", r.run.step_s.p90 * 1e3},
            {"rate", r.run.samples_per_s}};
  if (r.prediction) {
    j["predicted"] = r.prediction->step_s * 1e3;
    j["low"] = r.prediction->lower * 1e3;
    j["high"] = r.prediction->upper * 1e3;
    j["error"] = r.error();
    j["was"] = r.prediction->in_fit ? "fitted to" : "held out";
  }
  return j;
}

json step_tips(bool predicted) {
  json t = {tip("run", "run"), tip("measured", "measured [ms]", ".4~g"), tip("rate", "samples/s", ".4~g")};
  if (predicted) {
    t.push_back(tip("predicted", "predicted [ms]", ".4~g"));
    t.push_back(tip("low", "80 % low [ms]", ".4~g"));
    t.push_back(tip("high", "80 % high [ms]", ".4~g"));
    t.push_back(tip("error", "error", "+.1%"));
    t.push_back(tip("was", "run was"));
  }
  t.push_back(tip("id", "id"));
  return t;
}

// The same order in both figures of runs: fastest on top.
json labels_by_step(std::vector<const ReportRun*> runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const ReportRun* a, const ReportRun* b) { return a->measured() < b->measured(); });
  json out = json::array();
  for (const ReportRun* r : runs) out.push_back(r->label);
  return out;
}

Figure scatter(const ReportData& d) {
  json rows = json::array();
  double low = INFINITY, high = 0;
  for (const ReportRun* r : d.predicted()) {
    rows.push_back(row_of(*r));
    low = std::min({low, r->measured(), r->prediction->lower});
    high = std::max({high, r->measured(), r->prediction->upper});
  }
  low *= 1e3 * 0.95;
  high *= 1e3 * 1.05;
  const bool logarithmic = high > 8 * low;
  if (!logarithmic) low = 0;
  const json scale = {{"domain", {low, high}}, {"nice", false}, {"type", logarithmic ? "log" : "linear"}};
  const json colour = {{"field", "was"},
                       {"type", "nominal"},
                       {"title", nullptr},
                       {"scale", {{"domain", {"held out", "fitted to"}}, {"range", {"#D55E00", "#0072B2"}}}}};
  const json x = {{"field", "measured"},
                  {"type", "quantitative"},
                  {"scale", scale},
                  {"axis", {{"tickCount", 8}}},
                  {"title", "measured step [ms]"}};
  const auto y = [&](const char* field) {
    return json{
        {"field", field}, {"type", "quantitative"}, {"scale", scale}, {"title", "predicted step [ms]"}};
  };
  json spec = base_spec(rows);
  spec["height"] = 420;
  spec["layer"] = {
      {{"data", {{"values", {{{"v", low}}, {{"v", high}}}}}},
       {"mark", {{"type", "line"}, {"color", "#888"}, {"strokeDash", {4, 4}}}},
       {"encoding",
        {{"x", {{"field", "v"}, {"type", "quantitative"}, {"scale", scale}}},
         {"y", {{"field", "v"}, {"type", "quantitative"}, {"scale", scale}}}}}},
      {{"mark", {{"type", "rule"}, {"opacity", 0.55}, {"strokeWidth", 1.5}}},
       {"encoding", {{"x", x}, {"y", y("low")}, {"y2", {{"field", "high"}}}, {"color", colour}}}},
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 70}, {"opacity", 0.9}}},
       {"encoding",
        {{"x", x},
         {"y", y("predicted")},
         {"color", colour},
         {"shape",
          {{"field", "was"},
           {"type", "nominal"},
           {"title", nullptr},
           {"scale", {{"domain", {"held out", "fitted to"}}, {"range", {"circle", "square"}}}}}},
         {"tooltip", step_tips(true)}}}}};
  return {
      "predicted-measured", "Predicted against measured step time",
      "One point per run; the bar is the 80 % interval of its prediction. On the dashed line prediction and "
      "measurement agree. Runs held out were never seen by the fit.",
      spec};
}

Figure by_run(const ReportData& d) {
  json rows = json::array();
  for (const ReportRun* r : d.ok()) rows.push_back(row_of(*r));
  const bool predicted = !d.predicted().empty();
  const json y = {
      {"field", "run"}, {"type", "nominal"}, {"title", nullptr}, {"sort", labels_by_step(d.ok())}};
  const json x = {{"field", "measured"}, {"type", "quantitative"}, {"title", "step [ms]"}};
  json spec = base_spec(rows);
  spec["height"] = {{"step", 19}};
  spec["layer"] = json::array();
  spec["layer"].push_back({{"mark", {{"type", "bar"}, {"color", "#a9cbe3"}, {"height", {{"band", 0.75}}}}},
                           {"encoding", {{"y", y}, {"x", x}, {"tooltip", step_tips(predicted)}}}});
  spec["layer"].push_back(
      {{"mark", {{"type", "rule"}, {"color", "#0072B2"}, {"strokeWidth", 5}, {"opacity", 0.55}}},
       {"encoding",
        {{"y", y}, {"x", {{"field", "p10"}, {"type", "quantitative"}}}, {"x2", {{"field", "p90"}}}}}});
  if (predicted) {
    spec["layer"].push_back(
        {{"mark", {{"type", "rule"}, {"color", "#D55E00"}, {"strokeWidth", 1.5}}},
         {"encoding",
          {{"y", y}, {"x", {{"field", "low"}, {"type", "quantitative"}}}, {"x2", {{"field", "high"}}}}}});
    spec["layer"].push_back(
        {{"mark", {{"type", "point"}, {"filled", true}, {"color", "#D55E00"}, {"size", 45}}},
         {"encoding",
          {{"y", y},
           {"x", {{"field", "predicted"}, {"type", "quantitative"}}},
           {"tooltip", step_tips(true)}}}});
  }
  return {"step-by-run", "Step time of every run",
          predicted ? "Light bar: measured, its dark band the 10th to 90th percentile of steps. Orange: "
                      "predicted, with its 80 % interval."
                    : "Light bar: measured, its dark band the 10th to 90th percentile of steps.",
          spec};
}

Figure by_term(const ReportData& d) {
  constexpr size_t kShown = 8;  // as many as there are colours to tell apart
  std::map<std::string, double> sums;
  for (const ReportRun* r : d.predicted())
    for (const auto& [name, seconds] : r->prediction->terms) sums[name] += seconds;
  std::vector<std::pair<double, std::string>> order;
  order.reserve(sums.size());
  for (const auto& [name, sum] : sums) order.emplace_back(-sum, name);
  std::sort(order.begin(), order.end());
  json names = json::array();
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i].second] = i;
    if (i < kShown) names.push_back(order[i].second);
  }
  if (order.size() > kShown) names.push_back("other");
  json rows = json::array(), measured = json::array();
  for (const ReportRun* r : d.predicted()) {
    if (r->prediction->terms.empty()) continue;
    measured.push_back(row_of(*r));
    std::map<size_t, double> parts;
    for (const auto& [name, seconds] : r->prediction->terms) parts[std::min(place[name], kShown)] += seconds;
    for (const auto& [i, seconds] : parts)
      rows.push_back({{"run", r->label},
                      {"term", names[i]},
                      {"place", i},
                      {"ms", seconds * 1e3},
                      {"share", seconds / r->prediction->step_s}});
  }
  const json y = {
      {"field", "run"}, {"type", "nominal"}, {"title", nullptr}, {"sort", labels_by_step(d.predicted())}};
  json spec = base_spec(rows);
  spec["height"] = {{"step", 19}};
  spec["layer"] = {
      {{"mark", {{"type", "bar"}, {"height", {{"band", 0.75}}}}},
       {"encoding",
        {{"y", y},
         {"x", {{"field", "ms"}, {"type", "quantitative"}, {"stack", "zero"}, {"title", "step [ms]"}}},
         {"order", {{"field", "place"}, {"type", "quantitative"}}},
         {"color",
          {{"field", "term"}, {"type", "nominal"}, {"title", nullptr}, {"scale", {{"domain", names}}}}},
         {"tooltip",
          {tip("run", "run"), tip("term", "term"), tip("ms", "predicted [ms]", ".3~g"),
           tip("share", "share of the step", ".1%")}}}}},
      {{"data", {{"values", measured}}},
       {"mark", {{"type", "tick"}, {"color", "black"}, {"thickness", 2}, {"height", {{"band", 0.9}}}}},
       {"encoding",
        {{"y", y}, {"x", {{"field", "measured"}, {"type", "quantitative"}}}, {"tooltip", step_tips(true)}}}}};
  return {"step-by-term", "What the predicted step is made of",
          "Each bar is one run's predicted step, split into its terms; the black tick is the measured step.",
          spec};
}

}  // namespace

std::vector<Figure> prediction_figures(const ReportData& d) {
  std::vector<Figure> out;
  if (!d.predicted().empty()) out.push_back(scatter(d));
  if (!d.ok().empty()) out.push_back(by_run(d));
  for (const ReportRun* r : d.predicted())
    if (!r->prediction->terms.empty()) {
      out.push_back(by_term(d));
      break;
    }
  return out;
}

}  // namespace isobar
