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

namespace isobar {

struct NamedField {
  std::string field, name;
};

struct ChartData {
  nlohmann::json rows = nlohmann::json::array();
  std::set<std::string> fields;    // that any row has
  std::vector<NamedField> terms;   // longest on the whole first; the last may be "other"
  std::vector<NamedField> memory;  // categories
  std::string cost_title;          // with its unit
  double capacity_mb = 0;          // of memory for each rank; 0: not known
};

ChartData chart_data(const ReportData& d);
/// Values of a setting among the runs: numbers by size, precisions from none on. Empty where it does not
/// vary.
std::vector<std::string> values_of(const ReportData& d, const std::string& key);

/// Rows as {"field": [value of row 0, value of row 1, ...]}: a third of the size.
nlohmann::json columns_of(const nlohmann::json& rows);
/// Only the fields that a Vega-Lite specification speaks of.
nlohmann::json fields_used(const ChartData& s, const nlohmann::json& spec);
/// Six digits: more than any of it is measured to.
nlohmann::json rounded(double value);

}  // namespace isobar
