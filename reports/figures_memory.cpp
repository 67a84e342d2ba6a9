// Memory of a rank: what the plan places by category, beside what the process took and what there is.
#include <cstdio>

#include "reports/figures.h"

namespace isobar {

using nlohmann::json;

std::vector<Figure> memory_figures(const ChartData& s) {
  if (s.memory.empty()) return {};
  double most = 0;
  bool predicted = false;
  for (const json& row : s.rows) {
    most = std::max({most, row.value("memory", 0.0), row.value("predicted_rss", 0.0)});
    predicted = predicted || row.contains("predicted_rss");
  }
  json y = nominal("run");
  y["sort"] = {{"field", "memory"}, {"op", "max"}, {"order", "descending"}};
  json x = quantity("value", "MB of one rank");
  x["stack"] = "zero";
  json colour = nominal("part");
  colour["legend"] = {{"columns", 3}};
  json spec = runs_spec();
  spec["height"] = {{"step", 19}};
  spec["transform"] = first_of("memory", true);
  spec["resolve"] = {{"scale", {{"color", "independent"}, {"shape", "independent"}}}};
  spec["layer"] = json::array();
  spec["layer"].push_back(
      {{"transform", folded(s.memory)},
       {"mark", {{"type", "bar"}, {"height", {{"band", 0.75}}}}},
       {"encoding",
        {{"y", y},
         {"x", x},
         {"color", colour},
         {"opacity", faded()},
         {"tooltip",
          {tip("run", "run"), tip("part", "category"), tip("value", "MB", ".4~g"), tip("id", "id")}}}}});
  json words = {"measured (peak RSS)"}, fields = {"rss"};
  if (predicted) {
    words.push_back("predicted");
    fields.push_back("predicted_rss");
  }
  const json scale_shape = {{"domain", words}, {"range", {"circle", "diamond"}}};
  const json scale_colour = {{"domain", words}, {"range", {"black", "#D55E00"}}};
  json shape = nominal("what"), own = nominal("what");
  shape["scale"] = scale_shape;
  own["scale"] = scale_colour;
  spec["layer"].push_back(
      {{"transform",
        {{{"fold", fields}, {"as", {"key", "value"}}},
         {{"filter", "datum.value > 0"}},
         {{"calculate", "datum.key == 'rss' ? 'measured (peak RSS)' : 'predicted'"}, {"as", "what"}}}},
       {"mark", {{"type", "point"}, {"filled", true}, {"size", 55}, {"opacity", 0.9}}},
       {"encoding",
        {{"y", y},
         {"x", quantity("value", "MB of one rank")},
         {"shape", shape},
         {"color", own},
         {"tooltip",
          {tip("run", "run"), tip("what", "memory"), tip("value", "MB", ".4~g"), tip("id", "id")}}}}});
  std::string capacity;
  if (s.capacity_mb > 0) {
    char text[160];
    if (s.capacity_mb < 4 * most) {
      spec["layer"].push_back({{"data", {{"values", {{{"mb", s.capacity_mb}}}}}},
                               {"mark", {{"type", "rule"}, {"color", "#D55E00"}, {"strokeWidth", 2.5}}},
                               {"encoding", {{"x", quantity("mb", "MB of one rank")}}}});
      std::snprintf(text, sizeof text, " Orange line: what the machine has for each rank, %.3g GB.",
                    s.capacity_mb * 1e-3);
    } else {
      std::snprintf(
          text, sizeof text,
          " The machine has %.3g GB for each rank, of which the fullest run takes %.2g %%: off the scale.",
          s.capacity_mb * 1e-3, 100 * most / s.capacity_mb);
    }
    capacity = text;
  }
  return {
      {"memory", "Memory", "Memory of one rank",
       "The " + std::to_string(kBars) +
           " runs that take the most. Bars: what the plan places, by category. Points: the whole process, "
           "which besides holds the program, its libraries and the data loader." +
           capacity,
       spec}};
}

}  // namespace isobar
