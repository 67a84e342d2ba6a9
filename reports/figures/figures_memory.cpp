// Memory of a rank: planned bytes by category, the process's resident memory, and the capacity.
#include "model/base/text/printed.h"
#include "reports/figures/figures.h"
#include "reports/style/palette.h"

namespace isobar::report {

using nlohmann::json;

std::vector<Figure> memory_figures(const ReportData&, const ChartData& s) {
  if (s.memory.empty()) return {};
  double most = 0;
  bool predicted = false;
  for (const json& row : s.rows) {
    most = std::max({most, row.value("memory", 0.0), row.value("predicted_rss", 0.0)});
    predicted = predicted || row.contains("predicted_rss");
  }
  std::vector<std::string> words = {"measured (peak RSS)"}, fields = {"rss"};
  if (predicted) {
    words.push_back("predicted");
    fields.push_back("predicted_rss");
  }
  const bool drawn = s.capacity_mb > 0 && s.capacity_mb < 4 * most;
  std::string capacity;
  if (s.capacity_mb > 0)
    capacity =
        drawn
            ? printed(" Dashed line: capacity for each rank, %.3g GB.", s.capacity_mb * 1e-3)
            : printed(
                  " Not drawn: the capacity of %.3g GB for each rank, of which the fullest run uses %.2g %%.",
                  s.capacity_mb * 1e-3, 100 * most / s.capacity_mb);
  return {{"memory", "Memory", "Memory of one rank",
           "The run of each layout that uses the most. Bars: planned memory by category. "
           "Points: the whole process, which also holds the program, its libraries and the data "
           "loader." +
               capacity,
           chart_spec("memory", together(parts_of(s, s.memory), {{"processes", fields},
                                                                 {"words", words},
                                                                 {"word_colours", palette::scale_of(words)},
                                                                 {"capacity_drawn", drawn},
                                                                 {"capacity", s.capacity_mb}}))}};
}

}  // namespace isobar::report
