// Forecasts as NumPy's .npz: an array for each target in its own units, [rows] for a table or [time, H, W]
// for fields. A classifier writes the class `TARGET` [rows] i32 and `TARGET_probability` [rows, classes]. All
// arrays stay in memory until finish().
//
//   ForecastArrays out("forecast.npz", shape, names);
//   out.append(fields);   …   out.finish();                 // renamed to it when complete
#pragma once
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/files/npz.h"

namespace isobar::data {

class ForecastArrays {
 public:
  /// Throws ConfigError when the file cannot be written.
  ForecastArrays(std::string path, const SampleShape& shape, std::vector<std::string> names);
  void append(const float* fields);                               // [C,H,W] in physical units
  void append_classes(const float* probabilities, int64_t rows);  // [rows, classes]
  void finish();

 private:
  NpzOutput out_;
  SampleShape shape_;
  std::vector<std::string> names_;
  std::vector<std::string> bytes_;  // by name; for a classifier: classes, then probabilities
  int64_t samples_ = 0;
};

}  // namespace isobar::data
