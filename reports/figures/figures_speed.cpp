// Throughput of each layout, its scaling over ranks, its cost in memory and rank-time, and the fastest runs
// one by one.
#include <set>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr size_t kLeading = 8;  // of the figure that leads the page

Figure throughput(const ReportData& d) {
  const bool predicted = !d.predicted().empty(), sets = d.sets.size() > 1;
  json y = nominal(sets ? "row" : "layout", "layout");
  y["title"] = nullptr;
  y["sort"] = {{"field", "rate"}, {"op", "max"}, {"order", "descending"}};
  json x = quantity("rate", "samples/s");
  x["scale"] = {{"zero", true}};
  // no legend of layouts: the axis names them
  const json colour = sets ? set_colour(d) : layout_colour(d, false);
  const json shape = precision_shape(d);
  json spec = runs_spec();
  spec["height"] = {{"step", 26}};
  spec["transform"] = json::array();
  if (sets)
    spec["transform"].push_back({{"calculate", "datum.layout + ' (' + datum.set + ')'"}, {"as", "row"}});
  // The fastest rows; the best run of each is drawn above the others
  const json row = {sets ? "row" : "layout"};
  spec["transform"].push_back(
      {{"joinaggregate", {{{"op", "max"}, {"field", "rate"}, {"as", "row_rate"}}}}, {"groupby", row}});
  spec["transform"].push_back({{"window", {{{"op", "dense_rank"}, {"as", "row_place"}}}},
                               {"sort", {{{"field", "row_rate"}, {"order", "descending"}}}}});
  spec["transform"].push_back({{"filter", "datum.row_place <= " + std::to_string(kLeading)}});
  spec["transform"].push_back({{"window", {{{"op", "row_number"}, {"as", "of_layout"}}}},
                               {"groupby", row},
                               {"sort", {{{"field", "rate"}, {"order", "descending"}}}}});
  spec["layer"] = {
      {{"mark", {{"type", "point"}, {"size", 34}}},
       {"encoding",
        {{"y", y},
         {"x", x},
         {"color", colour},
         {"shape", shape},
         {"opacity", faded()},
         {"tooltip", run_tips(d)}}}},
      {{"transform", {{{"filter", "datum.of_layout == 1"}}}},
       {"mark", {{"type", "rule"}, {"strokeWidth", 2}}},
       {"encoding",
        {{"y", y},
         {"x", quantity("rate_low", "samples/s")},
         {"x2", {{"field", "rate_high"}}},
         {"color", colour}}}},
      {{"transform", {{{"filter", "datum.of_layout == 1"}}}},
       {"mark",
        {{"type", "point"}, {"filled", true}, {"size", 110}, {"stroke", palette::kInk}, {"strokeWidth", 1}}},
       {"encoding",
        {{"y", y},
         {"x", x},
         {"color", colour},
         {"shape", shape},
         {"opacity", faded()},
         {"tooltip", run_tips(d)}}}}};
  mark_per_run(spec, {0});
  if (predicted)
    spec["layer"].push_back(
        {{"transform", {{{"filter", "datum.of_layout == 1 && isValid(datum.predicted_rate)"}}}},
         {"mark",
          {{"type", "point"},
           {"shape", "diamond"},
           {"size", 80},
           {"color", palette::kPredicted},
           {"strokeWidth", 1.8}}},
         {"encoding", {{"y", y}, {"x", quantity("predicted_rate", "samples/s")}, {"tooltip", run_tips(d)}}}});
  return {"throughput-by-layout", kSpeedSection, "Throughput by layout",
          std::string("Samples/s (") + title_of(d.statistic) +
              "). Full: the best run, with 80 % of its steps; hollow: other settings" +
              (predicted ? "; orange-red diamond: predicted." : ".") +
              (palette::layouts(d).size() > kLeading ? " The " + std::to_string(kLeading) + " fastest." : ""),
          spec};
}

Figure front(const ReportData& d, const ChartData& s) {
  json x = quantity("sample_ms", "milliseconds per sample"), y = quantity("memory", "MB of one rank");
  x["scale"] = {{"zero", false}};
  y["scale"] = {{"zero", false}};
  json tips = run_tips(d);
  tips.insert(tips.begin() + 4, {tip("sample_ms", "ms per sample", ".4~g"),
                                 tip("memory", "MB of one rank", ".4~g"), tip("cost", s.cost_title, ".4~g")});
  const json colour = layout_colour(d);
  json spec = runs_spec();
  spec["height"] = 340;
  spec["resolve"] = {{"scale", {{"size", "independent"}}}};
  spec["layer"] = {
      {{"params", {{{"name", "brush"}, {"select", {{"type", "interval"}}}}}},
       {"transform", {{{"filter", "datum.front != 'on the front'"}}}},
       {"mark", {{"type", "point"}, {"size", 30}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"opacity", faded()}, {"tooltip", tips}}}},
      {{"transform", {{{"filter", "datum.front == 'on the front'"}}}},
       {"mark",
        {{"type", "point"},
         {"filled", true},
         {"size", 130},
         {"stroke", palette::kInk},
         {"strokeWidth", 1.4}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"opacity", faded()}, {"tooltip", tips}}}}};
  mark_per_run(spec, {0});
  return {
      "pareto-front", kSpeedSection, "Pareto front of time, memory and cost",
      std::string("Lower left is better; times are the ") + title_of(d.statistic) +
          ". Cost goes with time and ranks: " + s.cost_title +
          ". Outlined runs are on the Pareto front: no run is better in one of time, memory and cost without "
          "being worse in another. Drag a rectangle to pick runs in every figure.",
      spec};
}

std::vector<Figure> scaling(const ReportData& d) {
  std::set<int64_t> ranks, batches;
  for (const ReportRun* r : d.ok()) {
    ranks.insert(r->run.ranks);
    batches.insert(r->run.spec.train.global_batch);
  }
  if (ranks.size() < 2) return {};
  const bool predicted = !d.predicted().empty(), sets = d.sets.size() > 1;
  json spec = runs_spec();
  spec["height"] = 320;
  as_wide_as_its_places(spec, 100);
  json group = {"amp"};
  if (sets) group.push_back("set");
  json by_ranks = group;
  by_ranks.push_back("ranks");
  spec["transform"] = {
      {{"aggregate",
        {{{"op", "argmax"}, {"field", "rate"}, {"as", "best"}}, {{"op", "count"}, {"as", "runs"}}}},
       {"groupby", by_ranks}},
      {{"calculate", "datum.best.rate"}, {"as", "rate"}},
      {{"calculate", "datum.best.rate_low"}, {"as", "rate_low"}},
      {{"calculate", "datum.best.rate_high"}, {"as", "rate_high"}},
      {{"calculate", "datum.best.predicted_rate"}, {"as", "predicted_rate"}},
      {{"calculate", "datum.best.id"}, {"as", "id"}},
      {{"calculate", "datum.best.run"}, {"as", "run"}},
      {{"joinaggregate", {{{"op", "argmin"}, {"field", "ranks"}, {"as", "least"}}}}, {"groupby", group}},
      {{"calculate", "datum.least.best.rate / datum.least.ranks * datum.ranks"}, {"as", "ideal"}},
      {{"calculate", "datum.rate / datum.ideal"}, {"as", "efficiency"}},
      {{"calculate", "'measured'"}, {"as", "measured_word"}},
      {{"calculate", "'predicted'"}, {"as", "predicted_word"}},
      {{"calculate", "'ideal'"}, {"as", "ideal_word"}}};
  json x = {{"field", "ranks"},
            {"type", "ordinal"},
            {"title", "ranks"},
            {"axis", {{"labelAngle", 0}}},
            {"scale", {{"padding", 0.4}}}};
  const auto y = [](const char* field) {
    json j = quantity(field, "samples/s");
    j["scale"] = {{"zero", true}};
    return j;
  };
  json dash = nominal("measured_word");
  dash["scale"] = {{"domain", {"measured", "predicted", "ideal"}}, {"range", {{1, 0}, {6, 4}, {1, 3}}}};
  dash["legend"] = dash_legend();
  const auto dashed = [&](const char* field) {
    json j = dash;
    j["field"] = field;
    return j;
  };
  const json tips = {tip("amp", "precision"),
                     tip("ranks", "ranks", "d"),
                     tip("run", "best run"),
                     tip("rate", "samples/s", ".4~g"),
                     tip("predicted_rate", "predicted samples/s", ".4~g"),
                     tip("efficiency", "of ideal", ".0%"),
                     tip("runs", "of runs", "d")};
  json colour = nominal("amp");
  const json detail = sets ? nominal("set") : nominal("amp");
  colour["scale"] = palette::scale_of(palette::precisions(d));
  spec["layer"] = {
      {{"mark", {{"type", "line"}, {"strokeWidth", 1.5}}},
       {"encoding",
        {{"x", x},
         {"y", y("ideal")},
         {"color", colour},
         {"detail", detail},
         {"strokeDash", dashed("ideal_word")}}}},
      {{"mark", {{"type", "line"}, {"strokeWidth", 2.2}}},
       {"encoding",
        {{"x", x}, {"y", y("rate")}, {"color", colour}, {"detail", detail}, {"strokeDash", dash}}}},
      {{"mark", {{"type", "rule"}, {"strokeWidth", 1.5}}},
       {"encoding", {{"x", x}, {"y", y("rate_low")}, {"y2", {{"field", "rate_high"}}}, {"color", colour}}}},
      {{"mark", {{"type", "point"}, {"filled", true}, {"size", 80}}},
       {"encoding",
        {{"x", x}, {"y", y("rate")}, {"color", colour}, {"opacity", faded()}, {"tooltip", tips}}}}};
  if (predicted)
    spec["layer"].push_back({{"mark", {{"type", "line"}, {"strokeWidth", 1.8}}},
                             {"encoding",
                              {{"x", x},
                               {"y", y("predicted_rate")},
                               {"color", colour},
                               {"detail", detail},
                               {"strokeDash", dashed("predicted_word")}}}});
  return {{"scaling", kSpeedSection, batches.size() > 1 ? "Scaling" : "Strong scaling",
           std::string("The fastest run of each number of ranks (") + title_of(d.statistic) + ")" +
               (batches.size() > 1 ? "" : ", all with the same global batch") +
               ". Solid: measured, with a bar of 80 % of its steps; " +
               (predicted ? "dashed: predicted for the same run; " : "") +
               "dotted: if every rank added as much as the first.",
           spec}};
}

Figure by_layout(const ReportData& d) {
  const bool predicted = !d.predicted().empty();
  const json y = layouts_axis("measured", false), colour = layout_colour(d, false);
  json spec = layouts_spec("measured", false);
  spec["layer"] = {
      {{"mark", {{"type", "bar"}, {"height", {{"band", 0.75}}}}},
       {"encoding",
        {{"y", y}, {"x", quantity("measured", "step [ms]")}, {"color", colour}, {"tooltip", run_tips(d)}}}},
      {{"mark", {{"type", "rule"}, {"strokeWidth", 2.5}, {"color", palette::kInk}}},
       {"encoding",
        {{"y", y}, {"x", quantity("p10", "step [ms]")}, {"x2", {{"field", "p90"}}}, {"opacity", faded()}}}}};
  if (predicted) {
    spec["layer"].push_back(
        {{"mark", {{"type", "rule"}, {"color", palette::kPredicted}, {"strokeWidth", 1.5}}},
         {"encoding", {{"y", y}, {"x", quantity("low", "step [ms]")}, {"x2", {{"field", "high"}}}}}});
    spec["layer"].push_back(
        {{"mark", {{"type", "point"}, {"shape", "diamond"}, {"color", palette::kPredicted}, {"size", 55}}},
         {"encoding", {{"y", y}, {"x", quantity("predicted", "step [ms]")}, {"tooltip", run_tips(d)}}}});
  }
  return {"step-by-run", kSpeedSection, "Step time of each layout's fastest run",
          std::string("Bar: measured (") + title_of(d.statistic) +
              "); the line on it spans the middle 80 % of the steps." +
              (predicted ? " Orange-red: predicted, with its 80 % interval." : "") +
              " All runs are in the table below.",
          spec};
}

}  // namespace

std::vector<Figure> speed_figures(const ReportData& d, const ChartData& s) {
  if (d.ok().empty()) return {};
  std::vector<Figure> out = {throughput(d)};
  if (s.rows.size() > 2) out.push_back(front(d, s));
  for (Figure& f : scaling(d)) out.push_back(std::move(f));
  out.push_back(by_layout(d));
  return out;
}

}  // namespace isobar
