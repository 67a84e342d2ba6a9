// A run as one row of a table: index.sqlite of a sweep, tables/runs.csv and runs.jsonl of a report.
//
//   for (const RunColumn& c : run_columns(run)) c.name, c.value
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/records/results.h"

namespace isobar::records {

/// All settings and statistics of a run, one column of `runs` each, in SQLite and in tables/runs.csv of
/// reports. A run lacks the columns of keys that only other kinds of nets have.
struct RunColumn {
  std::string name, type;  // name and SQL type
  nlohmann::json value;    // null: not known
};
std::vector<RunColumn> run_columns(const RunRecord& r);

/// null for NaN and infinities, which JSON and SQL lack.
nlohmann::json finite(double v);

}  // namespace isobar::records
