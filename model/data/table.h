// Columns of numbers: a CSV file with a header line, or the variables of a netCDF file that lie along one
// dimension. A row is a sample.
//
//   SampleTable t = read_table("patterns.csv", "data.train", {"sst", "sss"});
//   t.values[row * 2 + 1]                                     // sss
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

struct SampleTable {
  int64_t rows = 0;
  int64_t left_out = 0;       // rows in which a value is missing: empty, NaN, a fill value
  std::vector<float> values;  // [rows, columns]
};

/// Those columns, in this order. Throws ConfigError, naming file and column: where there is no such column,
/// a cell is no number, or a column holds no number at all.
SampleTable read_table(const std::string& path, const std::string& key,
                       const std::vector<std::string>& columns);

/// The same in a child (model/base/child.h), which a damaged file may end; nothing is kept. Throws
/// ConfigError.
void require_table(const std::string& path, const std::string& key, const std::vector<std::string>& columns);

}  // namespace isobar
