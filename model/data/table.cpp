#include "model/data/table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "model/base/child.h"
#include "model/base/csv_table.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/data/channels.h"
#include "model/data/netcdf_file.h"

namespace isobar {
namespace {

using Column = std::vector<double>;  // NaN: missing

[[noreturn]] void no_column(const std::string& path, const std::string& key, const std::string& name,
                            const std::vector<std::string>& has) {
  throw ConfigError(path, key, "there is no column '" + name + "'", "the file has " + listed(has));
}

std::vector<Column> columns_of_csv(const std::string& path, const std::string& key,
                                   const std::vector<std::string>& names) {
  const CsvTable table = parse_csv(read_file(path, most::table, key), path);
  std::vector<Column> columns;
  for (const std::string& name : names) {
    if (!table.has(name)) no_column(path, key, name, table.columns);
    Column& column = columns.emplace_back();
    for (const CsvRow& row : table.rows) {
      const std::string& cell = row.text(name);
      const bool missing = cell.empty() || cell == "NaN" || cell == "nan" || cell == "NA";
      column.push_back(missing ? std::nan("") : row.number(name));
      if (!missing && std::isnan(column.back()))
        throw ConfigError(
            path, key,
            "line " + std::to_string(row.line()) + ", column '" + name + "': '" + cell + "' is no number",
            "write a number; an empty cell is a missing one");
    }
  }
  return columns;
}

std::vector<Column> columns_of_netcdf(const std::string& path, const std::string& key,
                                      const std::vector<std::string>& names) {
  const NetcdfFile file(path);
  std::vector<std::string> has;
  for (const NetcdfVariable& v : file.variables())
    if (v.numeric && v.dims.size() == 1) has.push_back(v.name);
  std::vector<Column> columns;
  for (const std::string& name : names) {
    if (std::find(has.begin(), has.end(), name) == has.end()) no_column(path, key, name, has);
    const NetcdfVariable& v = *file.find(name);
    if (v.dims != file.find(names[0])->dims)
      throw ConfigError(path, key, "'" + name + "' and '" + names[0] + "' lie along different dimensions",
                        "columns of a table have one row dimension");
    const double scale = file.number(v, "scale_factor").value_or(1),
                 offset = file.number(v, "add_offset").value_or(0);
    const auto missing = file.number(v, "missing_value");
    Column column = file.values(v);
    for (double& x : column)
      x = (v.has_fill && x == v.fill) || (missing && x == *missing) ? std::nan("") : x * scale + offset;
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace

SampleTable read_table(const std::string& path, const std::string& key,
                       const std::vector<std::string>& names) {
  const std::string kind = std::filesystem::path(path).extension();
  std::vector<Column> columns;
  if (kind == ".csv") {
    columns = columns_of_csv(path, key, names);
  } else if (kind == ".nc") {
    try {
      columns = columns_of_netcdf(path, key, names);
    } catch (const ArrayError& e) {
      throw ConfigError(path, key, e.what(), e.mend);
    }
  } else {
    throw ConfigError(path, key, "is no table", "give a .csv file with a header, or a .nc file");
  }
  for (size_t c = 0; c < columns.size(); ++c)
    if (std::none_of(columns[c].begin(), columns[c].end(), [](double x) { return std::isfinite(x); }))
      throw ConfigError(path, key, "column '" + names[c] + "' holds no number",
                        "leave it out of data.inputs and data.targets");
  SampleTable t;
  const size_t rows = columns.at(0).size();
  t.values.reserve(rows * columns.size());
  for (size_t r = 0; r < rows; ++r) {
    const bool whole =
        std::all_of(columns.begin(), columns.end(), [&](const Column& c) { return std::isfinite(c[r]); });
    if (whole)
      for (const Column& c : columns) t.values.push_back(static_cast<float>(c[r]));
    ++(whole ? t.rows : t.left_out);
  }
  if (t.rows == 0)
    throw ConfigError(path, key, "a value is missing in every row",
                      "leave out the columns that are rarely there");
  return t;
}

void require_table(const std::string& path, const std::string& key, const std::vector<std::string>& columns) {
  ChildLimits limits;
  limits.memory_bytes += 40 * InputFile(path, key).size();
  limits.cpu_s = 60;
  try {
    in_child(limits, [&](const ChildProgress&) {
      read_table(path, key, columns);
      return std::string();
    });
  } catch (const ChildDied& e) {
    throw ConfigError(path, key, e.what(), kHarmful);
  } catch (const ChildFailed& e) {
    throw ConfigError(path, key, std::string("cannot be read: ") + e.what(), kHarmful);
  }
}

}  // namespace isobar
