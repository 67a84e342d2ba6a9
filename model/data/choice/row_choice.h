// Selects the rows of a table, or points of gridded fields, that become samples: those without missing
// values, in the ocean regime of data.mask_mode, thinned and limited by a hash of the row's position, so that
// every reader selects the same rows.
//
//   RowGatherer rows(row_choice(data), 15);      // with a mask, the last column is ice
//   rows.offer(place, numbers);                  // NaN: missing
//   SampleTable t = rows.table(path, "data.train", names);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/data/tables/table.h"

namespace isobar::data {

/// The choice from data.mask_mode, thin_fraction and max_patterns. Without a mask, ice concentration is not
/// read.
RowChoice row_choice(const DataSpec& data);

class RowGatherer {
 public:
  RowGatherer(RowChoice choice, size_t columns);
  /// `place`: the row's index in the input, or the point's index counted over all steps. `numbers`:
  /// [columns].
  void offer(int64_t place, const double* numbers);
  /// The kept rows, in the order offered, without the ice column. Throws ConfigError for a column without any
  /// number, and when no row is left.
  SampleTable table(const std::string& path, const std::string& key, const std::vector<std::string>& names);

 private:
  void keep_least();
  RowChoice choice_;
  size_t columns_, kept_columns_;
  std::vector<int64_t> numbers_in_;  // numbers found, by column
  std::vector<uint64_t> hashes_;     // by kept row
  SampleTable table_;
};

}  // namespace isobar::data
