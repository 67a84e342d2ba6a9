// Every run of a report, finished or not, as a flat row of all settings and statistics, for programs. Columns
// are those of the results' SQLite index (bench/sweep/results/store.h), with names, results folder and
// predictions; `id` joins rows with trials/<id>, holdout.json and the index, and (`set`, `id`) is unique.
//
//   pandas.read_csv("tables/runs.csv")        polars.read_ndjson("tables/runs.jsonl")
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "reports/data.h"

namespace isobar::report {

/// Objects with keys in column order; missing values are absent.
nlohmann::ordered_json run_rows(const ReportData& d);
/// Columns of all rows, in order of first appearance; absent and null values are empty.
std::string csv_of(const nlohmann::ordered_json& rows);
/// One object a line with all columns; absent values are null.
std::string json_lines_of(const nlohmann::ordered_json& rows);

}  // namespace isobar::report
