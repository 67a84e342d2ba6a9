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

namespace isobar {

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

constexpr size_t kBars = 40;  // most lines of a figure with a line for each layout

/// An empty figure in the report's style: width of its container, `rows` inline.
nlohmann::json base_spec(nlohmann::json rows);
/// The same over the shared data set; marks picked in another figure are emphasised (see faded()).
nlohmann::json runs_spec();
/// The most pixels that the figure is wide; without it 760.
void at_most_wide(nlohmann::json& spec, size_t pixels);
/// Pixels for each value of an ordinal x axis.
void as_wide_as_its_places(nlohmann::json& spec, size_t pixels);
/// Marks the layers that draw one mark a run, so that the page can merge overlapping marks when there are
/// many.
void mark_per_run(nlohmann::json& spec, const std::vector<size_t>& layers);
/// Opacity that drops while other runs are picked on the page; else marks are opaque, which keeps their
/// contrast.
nlohmann::json faded();
/// One line a layout, showing its first run in order of a field; the axis that names the lines.
nlohmann::json layouts_spec(const std::string& field, bool descending);
nlohmann::json layouts_axis(const std::string& field, bool descending);
/// Layout as a colour, the same in all figures (palette.h).
nlohmann::json layout_colour(const ReportData& d, bool legend = true);
/// Set of results as a colour: before and after.
nlohmann::json set_colour(const ReportData& d);
/// Precision as a shape.
nlohmann::json precision_shape(const ReportData& d);
/// A legend with as many columns as fit beside an axis whose labels have this number of letters.
nlohmann::json legend_of(const std::vector<std::string>& names, size_t axis_letters = 6);
/// Length of the longest run name.
size_t letters_of_runs(const ChartData& s);
/// A thin line at zero along `x` (a quantity over the field "zero").
nlohmann::json zero_line(nlohmann::json x);
/// Fold of these fields into rows {part, value}, with their names as `part`.
nlohmann::json folded(const std::vector<NamedField>& fields);

nlohmann::json nominal(const std::string& field, const std::string& title = "");
nlohmann::json quantity(const std::string& field, const std::string& title = "");
/// One line of a tooltip.
nlohmann::json tip(const std::string& field, const std::string& title, const std::string& format = "");
/// The tooltip of a run.
nlohmann::json run_tips(const ReportData& d);
/// An axis of changes or errors in percent; zero has no sign.
nlohmann::json signed_percent();
/// A legend that distinguishes lines by their dashes.
nlohmann::json dash_legend();
/// Text as a string literal of a Vega expression.
std::string literal(const std::string& s);

}  // namespace isobar
