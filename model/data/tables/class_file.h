// A classifier's predictions as CF netCDF: the class of each row, with flag_values and flag_meanings, and the
// probability of every class, with the coordinates that rows had.
//
//   ClassFile out("classes.nc", about, rows, "digit", {"zero", "one", "two"});
//   out.append(probabilities, n);   …   out.finish();       // renamed to it when complete
//   -> int digit(row), float digit_probability(row, class), int class(class)
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/written/netcdf_output.h"

namespace isobar::data {

class ClassFile {
 public:
  /// `about`: global attributes. Throws ConfigError when the file cannot be written.
  ClassFile(std::string path, const std::map<std::string, std::string>& about, int64_t rows,
            const std::string& target, const std::vector<std::string>& classes, const Coordinates& at);
  void append(const float* probabilities, int64_t rows);  // [rows, classes]
  void finish() { out_.finish(); }                        // without it, nothing is left

 private:
  NetcdfOutput out_;
  int64_t classes_, written_ = 0;
  int class_ = -1, probability_ = -1;
};

/// The most probable class of each row, the first among equals: [rows]
std::vector<int32_t> most_probable(const float* probabilities, int64_t rows, int64_t classes);

}  // namespace isobar::data
