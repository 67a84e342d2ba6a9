// Every run of a report, finished or not, as a flat row of every setting and every statistic, for programs:
// columns are those of the results' SQLite index (bench/sweep/store.h), with names, the folder of results and
// predictions. `id` joins rows with trials/<id>, holdout.json and the index; `set` and `id` together are
// unique.
//
//   pandas.read_csv("tables/runs.csv")        polars.read_ndjson("tables/runs.jsonl")
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "reports/data.h"

namespace isobar {

/// Objects whose keys are in the order of the columns. What a run does not have is absent.
nlohmann::ordered_json run_rows(const ReportData& d);
/// Columns of any row, in order of first appearance; what is absent or null is empty.
std::string csv_of(const nlohmann::ordered_json& rows);
/// An object a line, all with all columns: what is absent is null.
std::string json_lines_of(const nlohmann::ordered_json& rows);

}  // namespace isobar
