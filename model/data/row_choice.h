// Which rows of a table, or points of gridded fields, are samples: those in which nothing is missing, of the
// ocean that data.mask_mode asks for, thinned and limited by a hash of the row's place, which is the same
// whoever reads.
//
//   RowGatherer rows(row_choice(data), 15);      // where rows are masked, the last column is ice
//   rows.offer(place, numbers);                  // NaN: missing
//   SampleTable t = rows.table(path, "data.train", names);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/data/table.h"

namespace isobar {

/// Of data.mask_mode …; the ice concentration is no column where nothing is masked.
RowChoice row_choice(const DataSpec& data);

class RowGatherer {
 public:
  RowGatherer(RowChoice choice, size_t columns);
  /// `place`: the row's number in what is read, that of a point all steps counted. `numbers`: [columns].
  void offer(int64_t place, const double* numbers);
  /// What is kept, in the order of offers, without the column of ice. Throws ConfigError for a column without
  /// a number, and where no row is left.
  SampleTable table(const std::string& path, const std::string& key, const std::vector<std::string>& names);

 private:
  void keep_least();
  RowChoice choice_;
  size_t columns_, kept_columns_;
  std::vector<int64_t> numbers_in_;  // of a column
  std::vector<uint64_t> hashes_;     // of a kept row
  SampleTable table_;
};

}  // namespace isobar
