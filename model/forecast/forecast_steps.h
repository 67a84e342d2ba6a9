// Forecasts of several steps: the net rolled forward from each sample, written by lead time.
#pragma once
#include <string>
#include <vector>

#include "model/forecast/net_and_data.h"

namespace isobar::forecast {

struct StepsQuestion {
  std::string out;  // netCDF
  int64_t batch = 1;
  int threads = 1;
  bool bar = true;
};

struct StepScores {
  std::vector<double> hours, loss;          // by step; NaN where the files give no times
  std::vector<std::vector<double>> errors;  // by step and target, normalised, as in validations
};

/// `from`: opened with this number of steps. Throws ConfigError for a net that cannot roll out.
StepScores forecast_steps(const StepsQuestion& q, const NetAndData& from);

}  // namespace isobar::forecast
