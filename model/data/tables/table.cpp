#include "model/data/tables/table.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <sstream>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/csv_table.h"
#include "model/base/text/joined.h"
#include "model/data/files/npz.h"
#include "model/data/tables/point_files.h"

namespace isobar::data {
namespace {

using Column = std::vector<double>;  // NaN: missing

[[noreturn]] void no_column(const std::string& path, const std::string& key, const std::string& name,
                            const std::vector<std::string>& has) {
  throw ConfigError(path, key, "there is no column '" + name + "'", "the file has " + joined(has));
}

std::vector<Column> columns_of_csv(const std::string& path, const std::string& key,
                                   const std::vector<std::string>& names) {
  const CsvTable table = parse_csv(read_file(path, most::table, key), path);
  std::vector<Column> columns;
  for (const std::string& name : names) {
    if (!table.has(name)) no_column(path, key, name, table.columns);
    if (std::count(table.columns.begin(), table.columns.end(), name) > 1)
      throw ConfigError(path, key, "has two columns '" + name + "'", "give them names of their own");
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

struct ColumnOf2d {
  std::string array;
  int64_t column = -1;
};

/// "features[3]": the fourth column of an array of two axes, one row a sample; others: column -1.
ColumnOf2d column_of_2d(const std::string& name) {
  static const std::regex form(R"((.+)\[(\d{1,6})\])");
  std::smatch m;
  if (!std::regex_match(name, m, form)) return {name, -1};
  return {m[1].str(), std::stoll(m[2].str())};
}

NpyArray column(const NpyArray& all, const ColumnOf2d& of, const std::string& path, const std::string& key) {
  const bool two = all.shape.size() == 2;
  if (!two || of.column >= all.shape[1])
    throw ConfigError(path, key,
                      "array '" + of.array + "' has " +
                          (two ? std::to_string(all.shape[1]) + " columns, so none is "
                               : std::to_string(all.shape.size()) + " axes, so there is no ") +
                          of.array + "[" + std::to_string(of.column) + "]",
                      "columns of an array of two axes are " + of.array + "[0], " + of.array + "[1], …");
  NpyArray one{.shape = {all.shape[0]}, .values = {}};
  for (int64_t r = 0; r < all.shape[0]; ++r)
    one.values.push_back(all.values[static_cast<size_t>(r * all.shape[1] + of.column)]);
  return one;
}

std::vector<Column> columns_of_npz(const std::string& path, const std::string& key,
                                   const std::vector<std::string>& names,
                                   const std::function<void()>& alive) {
  const NpzFile file(path, key);
  std::vector<Column> columns;
  NpyArray array2d;  // read once for all of its columns
  std::string last;
  for (const std::string& name : names) {
    const ColumnOf2d part = column_of_2d(name);
    const bool whole = file.has(name);
    if (!whole && !file.has(part.array)) no_column(path, key, name, file.names());
    if (!whole && part.array != last) array2d = file.read(last = part.array);
    NpyArray array = whole ? file.read(name) : column(array2d, part, path, key);
    const auto refuse = [&](const std::string& what) {
      throw ConfigError(path, key, "array '" + name + "' " + what,
                        "columns of a table are arrays of one axis and one length; those of an array of two "
                        "are " +
                            name + "[0], " + name + "[1], …");
    };
    if (array.shape.size() != 1) refuse("has " + std::to_string(array.shape.size()) + " axes");
    if (!columns.empty() && array.values.size() != columns[0].size())
      refuse("has " + std::to_string(array.values.size()) + " numbers, '" + names[0] + "' has " +
             std::to_string(columns[0].size()));
    columns.push_back(std::move(array.values));
    if (alive) alive();
  }
  return columns;
}

void gather_columns(const std::vector<Column>& columns, RowGatherer& rows) {
  std::vector<double> numbers(columns.size());
  for (size_t r = 0; r < columns[0].size(); ++r) {
    for (size_t c = 0; c < numbers.size(); ++c) numbers[c] = columns[c][r];
    rows.offer(static_cast<int64_t>(r), numbers.data());
  }
}

}  // namespace

std::vector<std::string> files_of_table(const std::string& path) {
  if (std::error_code unknown; std::filesystem::exists(path, unknown)) return {path};
  std::vector<std::string> files;
  std::stringstream parts(path);
  for (std::string one; std::getline(parts, one, ',');) {
    const size_t from = one.find_first_not_of(' ');
    if (from != std::string::npos) files.push_back(one.substr(from, one.find_last_not_of(' ') + 1 - from));
  }
  return files;
}

SampleTable read_table(const std::string& path, const std::string& key, const std::vector<std::string>& names,
                       const RowChoice& choice, const std::function<void()>& alive) {
  std::vector<std::string> columns = names;
  if (!choice.ice.empty()) columns.push_back(choice.ice);
  RowGatherer rows(choice, columns.size());
  const std::vector<std::string> files = files_of_table(path);
  const auto all_are = [&](const char* kind) {
    return !files.empty() && std::all_of(files.begin(), files.end(), [&](const std::string& f) {
      return std::filesystem::path(f).extension() == kind;
    });
  };
  if (all_are(".csv") && files.size() == 1) {
    gather_columns(columns_of_csv(files[0], key, columns), rows);
  } else if (all_are(".npz") && files.size() == 1) {
    gather_columns(columns_of_npz(files[0], key, columns, alive), rows);
  } else if (!files.empty() && std::all_of(files.begin(), files.end(), is_netcdf)) {
    gather_points(files, key, columns, alive, rows);
  } else {
    throw ConfigError(
        path, key, "is no table",
        "give a .csv file with a header, a .npz file, a .nc file, or several of one grid: a.nc,b.nc");
  }
  return rows.table(path, key, names);
}

}  // namespace isobar::data
