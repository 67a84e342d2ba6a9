// The figures of a report as Vega-Lite specifications: what render.py draws and what the page shows. A figure
// whose data is not there is left out.
//
// Figures of runs name the shared data set ("runs", chart_data.h) and do their own picking and adding up in
// transforms, so that they stay right when the page filters it; the others hold their rows themselves.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/chart_data.h"
#include "reports/data.h"

namespace isobar {

struct Figure {
  std::string id;       // file name and anchor
  std::string section;  // heading under which it stands
  std::string title;
  std::string caption;  // what it shows and how to read it
  nlohmann::json spec;  // Vega-Lite; width "container"

  bool of_runs() const { return spec["data"].contains("name"); }
};

/// In the page's order, with those of a section together. A file that should feed one and cannot be read is
/// named in `problems`, and the other figures are made.
std::vector<Figure> figures(const ReportData& d, const ChartData& s, std::vector<std::string>& problems);
/// The specification with all of its data in it.
nlohmann::json self_contained(const Figure& f, const ChartData& s);

// ---- pieces, one file each ----
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

constexpr const char* kSpeedSection = "Throughput";  // the live page has it, too

constexpr size_t kBars = 40;  // lines of a figure with a line for each layout or change

/// The empty figure in the report's style: width of its container, `rows` of data as inline values.
nlohmann::json base_spec(nlohmann::json rows);
/// The same over the shared data set; marks of what was picked elsewhere stand out (see faded()).
nlohmann::json runs_spec();
/// Names the layers that have a mark for each run: where runs are many the page leaves out what lies on one
/// place.
void mark_per_run(nlohmann::json& spec, const std::vector<size_t>& layers);
/// Opacity that falls when the page has picked other runs.
nlohmann::json faded(double opacity = 1);
/// The run of each layout that comes first in order of a field, a line for each; the axis that names them.
nlohmann::json layouts_spec(const std::string& field, bool descending);
nlohmann::json layouts_axis(const std::string& field, bool descending);
/// Layout as a colour, the same in all figures (palette.h).
nlohmann::json layout_colour(const ReportData& d, bool legend = true);
/// Precision as a shape.
nlohmann::json precision_shape(const ReportData& d);
/// A legend in as many columns as stand beside an axis whose labels have so many letters.
nlohmann::json legend_of(const std::vector<std::string>& names, size_t axis_letters = 6);
/// Letters of the longest name of a run.
size_t letters_of_runs(const ChartData& s);
/// A thin line at zero along `x` (a quantity over the field "zero").
nlohmann::json zero_line(nlohmann::json x);
/// Fold of these fields into rows {part, value}, with their names as `part`.
nlohmann::json folded(const std::vector<NamedField>& fields);

nlohmann::json nominal(const std::string& field, const std::string& title = "");
nlohmann::json quantity(const std::string& field, const std::string& title = "");
/// One tooltip line.
nlohmann::json tip(const std::string& field, const std::string& title, const std::string& format = "");
/// What to say of a run when it is hovered over.
nlohmann::json run_tips(const ReportData& d);
/// The axis of changes and errors in percent; zero has no sign.
nlohmann::json signed_percent();
/// The legend of lines told apart by their dashes.
nlohmann::json dash_legend();
/// Text as a literal in an expression of Vega.
std::string literal(const std::string& s);

}  // namespace isobar
