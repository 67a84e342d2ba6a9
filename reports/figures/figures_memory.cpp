// Memory of a rank: planned bytes by category, the process's resident memory, and the capacity.
#include <cstdio>

#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar {

using nlohmann::json;

std::vector<Figure> memory_figures(const ReportData&, const ChartData& s) {
  if (s.memory.empty()) return {};
  double most = 0;
  bool predicted = false;
  for (const json& row : s.rows) {
    most = std::max({most, row.value("memory", 0.0), row.value("predicted_rss", 0.0)});
    predicted = predicted || row.contains("predicted_rss");
  }
  const json y = layouts_axis("memory", true);
  json x = quantity("value", "MB of one rank");
  x["stack"] = "zero";
  std::vector<std::string> kinds;
  for (const NamedField& kind : s.memory) kinds.push_back(kind.name);
  json colour = nominal("part");
  colour["scale"] = palette::scale_of(kinds);
  colour["legend"] = legend_of(kinds, letters_of_runs(s));
  json spec = layouts_spec("memory", true);
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
  std::vector<std::string> words = {"measured (peak RSS)"}, fields = {"rss"};
  if (predicted) {
    words.push_back("predicted");
    fields.push_back("predicted_rss");
  }
  const json scale_shape = {{"domain", words}, {"range", {"circle", "diamond"}}};
  const json scale_colour = palette::scale_of(words);
  json shape = nominal("what"), own = nominal("what");
  shape["scale"] = scale_shape;
  own["scale"] = scale_colour;
  spec["layer"].push_back(
      {{"transform",
        {{{"fold", fields}, {"as", {"key", "value"}}},
         {{"filter", "datum.value > 0"}},
         {{"calculate", "datum.key == 'rss' ? 'measured (peak RSS)' : 'predicted'"}, {"as", "what"}}}},
       {"mark", {{"type", "point"}, {"filled", true}, {"size", 55}}},
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
      spec["layer"].push_back(
          {{"data", {{"values", {{{"mb", s.capacity_mb}}}}}},
           {"mark", {{"type", "rule"}, {"color", palette::kInk}, {"strokeWidth", 2}, {"strokeDash", {6, 3}}}},
           {"encoding", {{"x", quantity("mb", "MB of one rank")}}}});
      std::snprintf(text, sizeof text, " Dashed line: capacity for each rank, %.3g GB.",
                    s.capacity_mb * 1e-3);
    } else {
      std::snprintf(
          text, sizeof text,
          " Not drawn: the capacity of %.3g GB for each rank, of which the fullest run uses %.2g %%.",
          s.capacity_mb * 1e-3, 100 * most / s.capacity_mb);
    }
    capacity = text;
  }
  return {{"memory", "Memory", "Memory of one rank",
           std::string("The run of each layout that uses the most. Bars: planned memory by category. "
                       "Points: the whole process, which also holds the program, its libraries and the data "
                       "loader.") +
               capacity,
           spec}};
}

}  // namespace isobar
