// The figures of a report as Vega-Lite specifications, which render.py draws and the page shows. A figure
// without data is omitted.
//
// Figures of runs refer to the shared data set ("runs", chart_data.h) and aggregate it in transforms, so that
// they stay correct when the page filters it; the other figures contain their rows.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/data.h"
#include "reports/figures/chart_data.h"
#include "reports/figures/chart_file.h"

namespace isobar::report {

struct Figure {
  std::string id;       // file name and anchor
  std::string section;  // heading under which it stands
  std::string title;
  std::string caption;  // what it shows and how to read it
  nlohmann::json spec;  // Vega-Lite; width "container"
  bool shown = false;   // on the first two screens; the others are folded, and the first figure leads

  bool of_runs() const { return spec["data"].contains("name"); }
};

/// In the page's order, grouped by section. An unreadable input file is named in `problems` and does not
/// affect other figures.
std::vector<Figure> figures(const ReportData& d, const ChartData& s, std::vector<std::string>& problems);
/// The specification with all its data inline.
nlohmann::json self_contained(const Figure& f, const ChartData& s);

// ---- sections, one file each ----
std::vector<Figure> comparison_figures(const ReportData& d);                      // figures_comparison.cpp
std::vector<Figure> speed_figures(const ReportData& d, const ChartData& s);       // figures_speed.cpp
std::vector<Figure> prediction_figures(const ReportData& d, const ChartData& s);  // figures_prediction.cpp
std::vector<Figure> memory_figures(const ReportData& d, const ChartData& s);      // figures_memory.cpp
std::vector<Figure> setting_figures(const ReportData& d);                         // figures_settings.cpp
std::vector<Figure> op_figures(const ReportData& d);                              // figures_ops.cpp
std::vector<Figure> timeline_figures(const ReportData& d,
                                     std::vector<std::string>& problems);  // figures_timeline.cpp
std::vector<Figure> training_figures(const ReportData& d);                 // figures_training.cpp
std::vector<Figure> failure_figures(const ReportData& d);                  // figures_failures.cpp

constexpr const char* kSpeedSection = "Throughput";  // the live page uses it too

/// The fills of both.
Fills together(Fills a, Fills b);
/// For the tooltip of a run, and "predicted". The cost has a line in it if it has a title.
Fills run_fills(const ReportData& d, const std::string& cost_title = "");
/// Layout as a colour, the same in all figures (palette.h), and the columns of its legend.
Fills layout_fills(const ReportData& d);
/// Fields that are parts of a whole, folded into rows {part, value, order} with their names as `part`.
Fills parts_of(const ChartData& s, const std::vector<NamedField>& parts);
/// "class" of the rows, in order of first appearance.
std::vector<std::string> classes_in(const nlohmann::json& rows);
/// The columns of a legend that fit beside an axis whose labels have this number of letters.
size_t legend_columns(const std::vector<std::string>& names, size_t axis_letters = 6);

/// Text as a string literal of a Vega expression.
std::string literal(const std::string& s);

}  // namespace isobar::report
