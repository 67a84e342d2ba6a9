// Columns of numbers: a CSV file with a header line, the arrays of a .npz file, or the variables of one
// netCDF file or several on one grid (point_files.h). A row, or a point of the grid at a step, is a sample.
//
//   SampleTable t = read_table("patterns.csv", "data.train", {"sst", "sss"});
//   t.values[row * 2 + 1]                                     // sss
//   read_table("ocean.nc,atmosphere.nc", "data.train", {"sst", "tair"}, row_choice(data));
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/data/left_out.h"

namespace isobar {

struct RowChoice {        // row_choice.h
  std::string ice;        // the column of ice concentration that masks; "" = nothing is masked
  double least_ice = 0;   // from which on a point is one of ice
  bool with_ice = false;  // points of ice are kept; false: the others
  double thin_fraction = 1;
  int64_t max_patterns = 0;  // 0 = all
};

struct SampleTable {
  int64_t rows = 0;
  LeftOut left_out;
  std::vector<float> values;  // [rows, columns]
};

/// The files that a path names: parted by commas, unless one file is called so.
std::vector<std::string> files_of_table(const std::string& path);

/// Those columns, in this order. `alive` is called again and again. Throws ConfigError, naming file and
/// column: where there is no such column, a cell is no number, a column holds no number at all or no row is
/// left.
SampleTable read_table(const std::string& path, const std::string& key,
                       const std::vector<std::string>& columns, const RowChoice& choice = {},
                       const std::function<void()>& alive = {});

}  // namespace isobar
