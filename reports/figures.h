// The figures of a report as Vega-Lite specifications with their data inside: what render.py draws and what
// the page shows. A figure whose data is not there is left out.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/data.h"

namespace isobar {

struct Figure {
  std::string id;  // file name and anchor
  std::string title;
  std::string caption;  // what it shows and how to read it
  nlohmann::json spec;  // Vega-Lite; width "container"
};

std::vector<Figure> figures(const ReportData& d);

// ---- pieces, one file each ----
std::vector<Figure> prediction_figures(const ReportData& d);  // figures_prediction.cpp
std::vector<Figure> sweep_figures(const ReportData& d);       // figures_sweep.cpp
std::vector<Figure> run_figures(const ReportData& d);         // figures_run.cpp

/// The empty figure in the report's style: width of its container, `rows` of data as inline values.
nlohmann::json base_spec(nlohmann::json rows);
/// Points to hover over, on lines that are drawn by a layer of their own: points of a line mark would take
/// the dashes out of its legend. `run`: field of the colour; `what`: field that parts a run's lines.
nlohmann::json points_of(const nlohmann::json& x, const nlohmann::json& y, const std::string& run,
                         const std::string& what, int size, double opacity, const nlohmann::json& tips);
/// The legend of lines told apart by their dashes.
nlohmann::json dash_legend();
/// One tooltip line.
nlohmann::json tip(const std::string& field, const std::string& title, const std::string& format = "");

}  // namespace isobar
