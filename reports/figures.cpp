#include "reports/figures.h"

namespace isobar {

using nlohmann::json;

json base_spec(json rows) {
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v6.json"},
          {"width", "container"},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
          {"background", "white"},
          {"data", {{"values", std::move(rows)}}},
          {"config",
           {{"font", "system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif"},
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
              {"columns", 3}}},
            // Okabe and Ito's colours: told apart by colour-blind readers, and as greys in print
            {"range",
             {{"category",
               {"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#777777", "#F0E442",
                "#BBBBBB"}}}}}}};
}

json points_of(const json& x, const json& y, const std::string& run, const std::string& what, int size,
               double opacity, const json& tips) {
  return {{"mark", {{"type", "point"}, {"filled", true}, {"size", size}, {"opacity", opacity}}},
          {"encoding",
           {{"x", x},
            {"y", y},
            {"color", {{"field", run}, {"type", "nominal"}}},
            {"detail", {{"field", what}, {"type", "nominal"}}},
            {"tooltip", tips}}}};
}

json dash_legend() {
  return {{"symbolType", "stroke"},
          {"symbolStrokeColor", "#333333"},
          {"symbolStrokeWidth", 2},
          {"symbolSize", 500}};
}

json tip(const std::string& field, const std::string& title, const std::string& format) {
  json j = {{"field", field}, {"title", title}};
  j["type"] = format.empty() ? "nominal" : "quantitative";
  if (!format.empty()) j["format"] = format;
  return j;
}

std::vector<Figure> figures(const ReportData& d) {
  std::vector<Figure> out;
  for (auto make : {prediction_figures, sweep_figures, run_figures})
    for (Figure& f : make(d)) out.push_back(std::move(f));
  return out;
}

}  // namespace isobar
