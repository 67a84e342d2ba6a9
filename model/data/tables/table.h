// Columns of numbers from a CSV file with a header line, the arrays of a .npz file, or the variables of
// netCDF files on one grid (point_files.h). Each row, or grid point at a step, is a sample.
//
//   SampleTable t = read_table("patterns.csv", "data.train", {"sst", "sss"});
//   t.values[row * 2 + 1]                                     // sss
//   read_table("ocean.nc,atmosphere.nc", "data.train", {"sst", "tair"}, row_choice(data));
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/data/choice/left_out.h"

namespace isobar::data {

struct RowChoice {        // row_choice.h
  std::string ice;        // the column of ice concentration for the mask; "" = no mask
  double least_ice = 0;   // least concentration of an ice point
  bool with_ice = false;  // keep ice points; false: keep the others
  double thin_fraction = 1;
  int64_t max_patterns = 0;  // 0 = all
};

struct SampleTable {
  int64_t rows = 0;
  LeftOut left_out;
  std::vector<float> values;    // [rows, columns]
  std::vector<int64_t> places;  // [rows]: index in the input, or of the point, counted over all steps
};

/// Splits a path at commas, unless there is a file of that name.
std::vector<std::string> files_of_table(const std::string& path);

/// Reads the columns in this order; calls `alive` repeatedly. Throws ConfigError naming file and column: no
/// such column, a cell that is not a number, a column without any number, or no row left.
SampleTable read_table(const std::string& path, const std::string& key,
                       const std::vector<std::string>& columns, const RowChoice& choice = {},
                       const std::function<void()>& alive = {});

struct TablePoints {                               // of netCDF files
  int64_t points = 0;                              // of a step
  std::vector<double> latitude, longitude, times;  // degrees [points]; [steps]; {}: unknown
  std::string time_units, calendar;
};

/// Coordinates of the places of a table's rows: row_place % points, row_place / points. Files without a
/// grid have no points. Throws ConfigError.
TablePoints points_of_table(const std::string& path, const std::string& key,
                            const std::vector<std::string>& columns);

/// Units of the columns; {}: files of this format have none. Throws ConfigError.
std::vector<std::string> units_of_table(const std::string& path, const std::string& key,
                                        const std::vector<std::string>& columns);

}  // namespace isobar::data
