#include "reports/figures/figures.h"

#include <algorithm>

#include "reports/style/palette.h"

namespace isobar {

using nlohmann::json;

namespace {

json style() {
  return {{"font", "system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif"},
          {"view", {{"stroke", nullptr}}},
          {"point", {{"opacity", 1}, {"strokeWidth", 1.3}}},
          {"tick", {{"opacity", 1}}},
          {"axis",
           {{"labelFontSize", 12},
            {"titleFontSize", 12},
            {"titleFontWeight", 500},
            {"gridColor", palette::kGrid},
            {"domainColor", palette::kMuted},
            {"tickColor", palette::kMuted},
            {"labelColor", palette::kInk},
            {"titleColor", palette::kInk}}},
          {"axisY", {{"labelLimit", 360}}},
          {"axisXQuantitative", {{"tickCount", 8}}},
          {"axisX", {{"labelOverlap", "greedy"}, {"labelSeparation", 6}}},
          {"legend",
           {{"orient", "top"},
            {"labelFontSize", 12},
            {"titleFontSize", 12},
            {"titleFontWeight", 500},
            {"labelLimit", 320},
            {"symbolOpacity", 1},
            {"symbolBaseFillColor", palette::kInk},
            {"symbolBaseStrokeColor", palette::kInk},
            {"layout", {{"top", {{"direction", "vertical"}, {"anchor", "start"}, {"bounds", "full"}}}}},
            {"labelColor", palette::kInk},
            {"titleColor", palette::kInk},
            {"columns", 3}}},
          // default for fields that palette.h does not name
          {"range", {{"category", palette::run_scale(std::vector<std::string>(12))["range"]}}}};
}

}  // namespace

json base_spec(json rows) {
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v6.json"},
          {"width", "container"},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
          {"background", palette::kPaper},
          {"data", {{"values", std::move(rows)}}},
          {"config", style()}};
}

json runs_spec() {
  json spec = base_spec(nullptr);
  spec["data"] = {{"name", "runs"}};
  spec["params"] = {{{"name", "picked"}, {"value", nullptr}}};
  return spec;
}

void mark_per_run(json& spec, const std::vector<size_t>& layers) {
  spec["usermeta"]["mark_per_run"] = layers;  // page_spec.js
}

void at_most_wide(json& spec, size_t pixels) {
  spec["usermeta"]["width"] = pixels;  // page.cpp, render.py
}

void as_wide_as_its_places(json& spec, size_t pixels) {
  spec["width"] = {{"step", pixels}};
  spec["autosize"] = "pad";
}

json faded() {
  return {{"condition", {{"test", "!picked || picked[datum.id]"}, {"value", 1}}}, {"value", 0.15}};
}

json layouts_spec(const std::string& field, bool descending) {
  json spec = runs_spec();
  spec["height"] = {{"step", 24}};
  // Each set of results has its own row when sets are compared.
  const json order = {{{"field", field}, {"order", descending ? "descending" : "ascending"}}};
  spec["transform"] = {{{"filter", "isValid(datum." + field + ")"}},
                       {{"window", {{{"op", "row_number"}, {"as", "of_layout"}}}},
                        {"groupby", {"layout", "set"}},
                        {"sort", order}},
                       {{"filter", "datum.of_layout == 1"}},
                       {{"window", {{{"op", "row_number"}, {"as", "place"}}}}, {"sort", order}},
                       {{"filter", "datum.place <= " + std::to_string(kBars)}}};
  return spec;
}

json layouts_axis(const std::string& field, bool descending) {
  json y = nominal("run");
  y["sort"] = {{"field", field},
               {"op", descending ? "max" : "min"},
               {"order", descending ? "descending" : "ascending"}};
  return y;
}

json layout_colour(const ReportData& d, bool legend) {
  json j = nominal("layout");
  j["scale"] = palette::layout_scale(d);
  j["legend"] = legend ? legend_of(palette::layouts(d)) : json();
  return j;
}

json set_colour(const ReportData& d) {
  json j = nominal("set");
  j["scale"] = palette::set_scale(d.sets);
  j["legend"] = legend_of(d.sets);
  return j;
}

json legend_of(const std::vector<std::string>& names, size_t axis_letters) {
  // Pixels of a wide letter, a legend symbol, a drawing (render.py) and the widest axis (style)
  constexpr double kLetter = 7.3, kSymbol = 26, kDrawing = 740, kAxis = 360;
  const double room = kDrawing - std::min(kAxis, kLetter * static_cast<double>(axis_letters));
  size_t columns = 5;
  for (; columns > 1; --columns) {
    std::vector<size_t> longest(columns);
    for (size_t i = 0; i < names.size(); ++i)
      longest[i % columns] = std::max(longest[i % columns], names[i].size());
    double width = 0;
    for (const size_t letters : longest) width += kSymbol + kLetter * static_cast<double>(letters);
    if (width <= room) break;
  }
  return {{"columns", columns}};
}

size_t letters_of_runs(const ChartData& s) {
  size_t most = 0;
  for (const json& row : s.rows) most = std::max(most, row["run"].get_ref<const std::string&>().size());
  return most;
}

json precision_shape(const ReportData& d) {
  json j = nominal("amp", "");
  j["scale"] = palette::precision_shapes(d);
  return j;
}

json zero_line(json x) {
  return {{"data", {{"values", {{{"zero", 0}}}}}},
          {"mark", {{"type", "rule"}, {"color", palette::kMuted}, {"strokeDash", {4, 4}}}},
          {"encoding", {{"x", std::move(x)}}}};
}

json folded(const std::vector<NamedField>& fields) {
  json keys = json::array(), names = json::object(), order = json::object();
  for (size_t i = 0; i < fields.size(); ++i) {
    keys.push_back(fields[i].field);
    names[fields[i].field] = fields[i].name;
    order[fields[i].field] = i;
  }
  const auto text = [](const json& j) { return j.dump(-1, ' ', true, json::error_handler_t::replace); };
  return {{{"fold", keys}, {"as", {"key", "value"}}},
          {{"filter", "datum.value > 0"}},
          {{"calculate", text(names) + "[datum.key]"}, {"as", "part"}},
          {{"calculate", text(order) + "[datum.key]"}, {"as", "order"}}};
}

json nominal(const std::string& field, const std::string& title) {
  return {{"field", field}, {"type", "nominal"}, {"title", title.empty() ? json() : json(title)}};
}

json quantity(const std::string& field, const std::string& title) {
  return {{"field", field}, {"type", "quantitative"}, {"title", title.empty() ? json() : json(title)}};
}

json tip(const std::string& field, const std::string& title, const std::string& format) {
  json j = {{"field", field}, {"title", title}};
  j["type"] = format.empty() ? "nominal" : "quantitative";
  if (!format.empty()) j["format"] = format;
  return j;
}

json run_tips(const ReportData& d) {
  json t = {tip("run", "run"),
            tip("layout", "layout"),
            tip("ranks", "ranks", "d"),
            tip("amp", "precision"),
            tip("rate", std::string("samples/s, ") + title_of(d.statistic), ".4~g"),
            tip("measured", std::string("step [ms], ") + title_of(d.statistic), ".4~g"),
            tip("measured_low", "80 % interval from [ms]", ".4~g"),
            tip("measured_high", "to [ms]", ".4~g"),
            tip("p10", "10 % of steps under [ms]", ".4~g"),
            tip("p90", "90 % of steps under [ms]", ".4~g")};
  if (!d.predicted().empty()) {
    t.push_back(tip("predicted", "predicted [ms]", ".4~g"));
    t.push_back(tip("low", "80 % interval from [ms]", ".4~g"));
    t.push_back(tip("high", "to [ms]", ".4~g"));
    t.push_back(tip("error", "error of prediction", "+.1%"));
    t.push_back(tip("was", "run was"));
  }
  if (!d.contended().empty()) t.push_back(tip("steady", "was"));
  t.push_back(tip("id", "id"));
  return t;
}

json signed_percent() {
  return {{"format", "+.0%"}, {"labelExpr", "datum.value == 0 ? '0%' : datum.label"}};
}

json dash_legend() {
  return {{"symbolType", "stroke"},
          {"symbolStrokeColor", palette::kInk},
          {"symbolStrokeWidth", 2},
          {"symbolSize", 225}};
}

std::string literal(const std::string& s) {
  return json(s).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::vector<Figure> figures(const ReportData& d, const ChartData& s, std::vector<std::string>& problems) {
  std::vector<Figure> out;
  const auto take = [&](std::vector<Figure> more) {
    for (Figure& f : more) out.push_back(std::move(f));
  };
  take(comparison_figures(d));
  take(speed_figures(d, s));
  take(setting_figures(d));
  take(prediction_figures(d, s));
  take(op_figures(d));
  take(timeline_figures(d, problems));
  take(memory_figures(d, s));
  take(training_figures(d));
  take(failure_figures(d));
  // The second screen: two figures beside each other
  const bool lanes = std::any_of(out.begin(), out.end(), [](const Figure& f) { return f.id == "timeline"; });
  const std::vector<std::string> second =
      d.sets.size() > 1 ? std::vector<std::string>{"comparison", "throughput-by-layout"}
                        : std::vector<std::string>{"predicted-measured", lanes ? "timeline" : "residuals"};
  for (Figure& f : out) f.shown = std::find(second.begin(), second.end(), f.id) != second.end();
  return out;
}

json self_contained(const Figure& f, const ChartData& s) {
  json spec = f.spec;
  if (f.of_runs()) spec["datasets"] = {{"runs", fields_used(s, f.spec)}};
  return spec;
}

}  // namespace isobar
