// Forecasts as CF netCDF: a variable for each target in its own units, over (time, latitude, longitude), or
// over the rows of a table. Readable by ncdump, xarray and `isobar data inspect`.
//
//   ForecastFile out("forecast.nc", about, samples, shape, names, coordinates);
//   out.append(fields, time);   …   out.finish();            // appears under its name when it is complete
//
// Of several lead times: over (time, step, latitude, longitude), where time is that of the last input
// (forecast_reference_time) and step the lead (forecast_period); append() goes through a sample's leads.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/data/dataset.h"
#include "model/data/netcdf_output.h"

namespace isobar {

class ForecastFile {
 public:
  /// `about`: global attributes. Throws ConfigError where the file cannot be written.
  ForecastFile(std::string path, const std::map<std::string, std::string>& about, int64_t samples,
               const SampleShape& shape, const std::vector<std::string>& names, const Coordinates& at,
               const std::string& what = "forecast of ",  // before each name, in its long_name
               const std::vector<double>& leads = {});    // hours (NaN: steps); of one there is no axis
  void append(const float* fields, double time);          // [C,H,W] in physical units; NaN: time is not known
  void finish() { out_.finish(); }                        // without it, nothing is left

 private:
  void define(const std::map<std::string, std::string>& about, int64_t samples,
              const std::vector<std::string>& names, const Coordinates& at, const std::string& what,
              std::vector<double> leads);
  void coordinate(const std::string& name, int dimension, const std::string& units,
                  const std::vector<double>& values, const std::string& standard_name = "");
  NetcdfOutput out_;
  FieldShape shape_;
  bool of_table_;
  int64_t leads_ = 1;
  int time_ = -1;
  std::vector<int> variables_;
  std::map<int, std::vector<double>> coordinates_;  // by variable, until definitions end
  int64_t written_ = 0;
};

/// As netCDF takes names: letters, digits and underscores, a letter first, each once and none of `taken`
std::vector<std::string> variable_names(const std::vector<std::string>& channels,
                                        std::vector<std::string> taken);

}  // namespace isobar
