// Forecasts as CF netCDF: a variable for each target in its own units, over (time, latitude, longitude), or
// over the rows of a table, with the coordinates that each had.
//
//   ForecastFile out("forecast.nc", about, samples, shape, names, coordinates);
//   out.append(fields, time);   …   out.finish();            // renamed to it when complete
//
// With several lead times variables are over (time, step, latitude, longitude): time is that of the last
// input (forecast_reference_time), step the lead (forecast_period). append() takes the leads of a sample in
// order.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/written/netcdf_output.h"

namespace isobar::data {

class ForecastFile {
 public:
  /// `about`: global attributes. Throws ConfigError when the file cannot be written.
  ForecastFile(std::string path, const std::map<std::string, std::string>& about, int64_t samples,
               const SampleShape& shape, const std::vector<std::string>& names, const Coordinates& at,
               const std::string& what = "forecast of ",  // before each name, in its long_name
               const std::vector<double>& leads = {});    // hours (NaN: steps); a single lead has no axis
  void append(const float* fields, double time);          // [C,H,W] in physical units; NaN: unknown time
  void finish() { out_.finish(); }                        // without it, nothing is left

 private:
  void define(const std::map<std::string, std::string>& about, int64_t samples,
              const std::vector<std::string>& names, const Coordinates& at, const std::string& what,
              std::vector<double> leads);
  NetcdfOutput out_;
  FieldShape shape_;
  bool of_table_;
  int64_t leads_ = 1;
  int time_ = -1;
  std::vector<int> variables_;
  int64_t written_ = 0;
};

/// Defines time, latitude and longitude of a table's rows as far as they are known (CF's point features), for
/// end_header(); the value of the variables' attribute "coordinates", "" without any.
std::string define_places(NetcdfOutput& out, int row, const Coordinates& at);

/// Valid, unique netCDF names for channels: letters, digits and underscores, a letter first, none of `taken`
std::vector<std::string> variable_names(const std::vector<std::string>& channels,
                                        std::vector<std::string> taken);

}  // namespace isobar::data
