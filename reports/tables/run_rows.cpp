#include "reports/tables/run_rows.h"

#include <cmath>
#include <set>
#include <vector>

#include "model/base/text/csv.h"
#include "model/records/run_columns.h"
#include "reports/style/units.h"
#include "reports/tables/report_tables.h"

namespace isobar::report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json finite_or_null(double v) {
  return std::isfinite(v) ? json(v) : json(nullptr);
}

std::vector<std::string> columns_in(const ordered_json& rows) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const auto& row : rows)
    for (const auto& [key, value] : row.items())
      if (seen.insert(key).second) out.push_back(key);
  return out;
}

std::string written(const ordered_json& v) {
  return v.dump(-1, ' ', false, json::error_handler_t::replace);
}

// User text may look like a formula to a spreadsheet; csv_cell() escapes it.
std::string cell_of(const ordered_json& v) {
  if (v.is_null()) return "";
  if (v.is_string()) return csv_cell(v.get<std::string>());
  if (v.is_structured()) return csv_cell(written(v));
  return written(v);
}

}  // namespace

ordered_json run_rows(const ReportData& d) {
  ordered_json rows = ordered_json::array();
  for (const ReportRun& r : d.runs) {
    ordered_json row;
    row["id"] = r.run.id;
    row["set"] = r.set;
    row["name"] = r.name;
    row["label"] = r.label;
    row["layout"] = r.layout;
    if (r.run.provenance.is_object() && r.run.provenance.contains("about"))
      for (const auto& [key, value] : r.run.provenance["about"].items()) row["about_" + key] = value;
    const bool timed = r.run.run_class == records::RunClass::ok && r.measured() > 0;
    row["statistic"] = name_of(d.statistic);
    row["measured_s"] = timed ? json(r.measured()) : json();
    row["measured_lo_s"] = timed ? finite_or_null(r.measured_lower()) : json();
    row["measured_hi_s"] = timed ? finite_or_null(r.measured_upper()) : json();
    row["measured_samples_per_s"] = timed ? json(r.rate()) : json();
    const Reached reached = timed ? reached_by(r, d) : Reached{kNaN, kNaN};
    row["measured_model_flops_per_s_rank"] = finite_or_null(reached.model_flops);
    row["measured_mfu"] = finite_or_null(reached.mfu);
    if (const auto& p = r.prediction) {
      row["predicted_s"] = p->step_s;
      row["predicted_lo_s"] = p->lower;
      row["predicted_hi_s"] = p->upper;
      row["predicted_error"] = timed ? finite_or_null(r.error()) : json();
      row["in_fit"] = p->in_fit;
      if (p->memory_total > 0) row["predicted_memory_bytes"] = p->memory_total;
    }
    for (const records::RunColumn& c : records::run_columns(r.run))
      if (c.name != "id") row[c.name] = c.value;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string csv_of(const ordered_json& rows) {
  const std::vector<std::string> columns = columns_in(rows);
  std::string out;
  for (size_t c = 0; c < columns.size(); ++c) out += (c ? "," : "") + csv_cell(columns[c]);
  out += "\r\n";
  for (const auto& row : rows) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto it = row.find(columns[c]);
      out += (c ? "," : "") + (it == row.end() ? std::string() : cell_of(*it));
    }
    out += "\r\n";
  }
  return out;
}

std::string json_lines_of(const ordered_json& rows) {
  const std::vector<std::string> columns = columns_in(rows);
  std::string out;
  for (const auto& row : rows) {
    ordered_json line;
    for (const std::string& c : columns) line[c] = row.contains(c) ? row[c] : ordered_json();
    out += written(line) + "\n";
  }
  return out;
}

}  // namespace isobar::report
