// The one data set that most figures of a report share: a row per finished run. The page holds it once, so
// that a filter or a choice made in one figure reaches all others.
//
//   ChartData s = chart_data(d);
//   s.rows[0]["measured"], s.rows[0][s.terms[0].field]      // milliseconds
//
//   id run set layout ranks amp micro_batch workers     what it was
//   rate rate_low rate_high                             samples/s; of its 90th and 10th percentile of steps
//   measured measured_low measured_high                 milliseconds of a step, with its own 80 % interval
//   p10 p90 steady                                      of its steps; contended or undisturbed
//                                                       (rate, measured, error: of the report's statistic)
//   predicted low high error was predicted_rate         with the 80 % interval; error as a share
//   sample_ms memory rss predicted_rss cost front       of the compromise between time, memory and cost
//   t0, t1, ...   predicted milliseconds by term        m0, m1, ...   planned MB of one rank by category
//   f0, f1, ...   values of the report's facets
//   line_X        runs with the same one agree in all but X
#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "reports/data.h"

namespace isobar::report {

struct NamedField {
  std::string field, name;
};

struct ChartData {
  nlohmann::json rows = nlohmann::json::array();
  std::set<std::string> fields;    // present in any row
  std::vector<NamedField> terms;   // largest first; the last may be "other"
  std::vector<NamedField> memory;  // categories
  std::string cost_title;          // with its unit
  double capacity_mb = 0;          // memory available to each rank; 0: not known
};

ChartData chart_data(const ReportData& d);
/// Values that a setting takes among the runs, in display order (numbers ascending, precision "none" first).
/// Empty if the setting does not vary.
std::vector<std::string> values_of(const ReportData& d, const std::string& key);

/// Column form of the rows, {"field": [value of row 0, value of row 1, ...]}, which is a third of the size.
nlohmann::json columns_of(const nlohmann::json& rows);
/// Only the fields that a Vega-Lite specification refers to.
nlohmann::json fields_used(const ChartData& s, const nlohmann::json& spec);
/// Six significant digits, which exceeds the precision of any measurement here.
nlohmann::json rounded(double value);

}  // namespace isobar::report
