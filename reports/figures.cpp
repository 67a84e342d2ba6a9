#include "reports/figures.h"

namespace isobar {

using nlohmann::json;

namespace {

json style() {
  return {{"font", "system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif"},
          {"view", {{"stroke", nullptr}}},
          {"axis",
           {{"labelFontSize", 12},
            {"titleFontSize", 12},
            {"titleFontWeight", 500},
            {"gridColor", "#e6e6e6"},
            {"domainColor", "#888"},
            {"tickColor", "#888"},
            {"labelColor", "#222"},
            {"titleColor", "#222"}}},
          {"axisY", {{"labelLimit", 300}}},
          {"axisXQuantitative", {{"tickCount", 8}}},
          {"axisX", {{"labelOverlap", "greedy"}, {"labelSeparation", 6}}},
          {"legend",
           {{"orient", "top"},
            {"labelFontSize", 12},
            {"titleFontSize", 12},
            {"titleFontWeight", 500},
            {"labelLimit", 320},
            {"symbolOpacity", 1},
            {"layout", {{"top", {{"anchor", "start"}, {"bounds", "full"}}}}},
            {"columns", 3}}},
          // Okabe and Ito's colours: told apart by colour-blind readers, and as greys in print
          {"range",
           {{"category",
             {"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#777777", "#F0E442",
              "#BBBBBB"}}}}};
}

}  // namespace

json base_spec(json rows) {
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v6.json"},
          {"width", "container"},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
          {"background", "white"},
          {"data", {{"values", std::move(rows)}}},
          {"config", style()}};
}

json runs_spec() {
  json spec = base_spec(nullptr);
  spec["data"] = {{"name", "runs"}};
  spec["params"] = {{{"name", "picked"}, {"value", nullptr}}};
  return spec;
}

json faded(double opacity) {
  return {{"condition", {{"test", "!picked || picked[datum.id]"}, {"value", opacity}}},
          {"value", 0.15 * opacity}};
}

json first_of(const std::string& field, bool descending) {
  return {{{"window", {{{"op", "row_number"}, {"as", "place"}}}},
           {"sort", {{{"field", field}, {"order", descending ? "descending" : "ascending"}}}}},
          {{"filter", "datum.place <= " + std::to_string(kBars)}}};
}

json fastest_runs_spec() {
  json spec = runs_spec();
  spec["height"] = {{"step", 19}};
  spec["transform"] = first_of("measured", false);
  return spec;
}

json fastest_runs_axis() {
  json y = nominal("run");
  y["sort"] = {{"field", "measured"}, {"op", "min"}, {"order", "ascending"}};
  return y;
}

json zero_line(json x) {
  return {{"data", {{"values", {{{"zero", 0}}}}}},
          {"mark", {{"type", "rule"}, {"color", "#888"}, {"strokeDash", {4, 4}}}},
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

json dash_legend() {
  return {{"symbolType", "stroke"},
          {"symbolStrokeColor", "#333333"},
          {"symbolStrokeWidth", 2},
          {"symbolSize", 500}};
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
  take(memory_figures(s));
  take(training_figures(d));
  take(failure_figures(d));
  return out;
}

json self_contained(const Figure& f, const ChartData& s) {
  json spec = f.spec;
  if (f.of_runs()) spec["datasets"] = {{"runs", fields_used(s, f.spec)}};
  return spec;
}

}  // namespace isobar
