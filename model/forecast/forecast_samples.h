// Forecasts of one step: each sample's prediction, written to a file, and the errors.
//
//   const ForecastScores s = forecast_samples({.out = "forecast.nc"}, open_net_and_data("runs/first", "",
//   0)); s.loss(), s.error(0)
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/forecast/forecast_steps.h"
#include "model/inference/forecaster.h"

namespace isobar::forecast {

class ForecastScores {  // means over samples
 public:
  void add(const inference::Forecaster& net) {
    const auto samples = static_cast<double>(net.batch());
    const std::vector<double> errors = net.errors();
    errors_.resize(errors.size());
    for (size_t c = 0; c < errors.size(); ++c) errors_[c] += samples * errors[c];
    loss_ += samples * net.loss();
    samples_ += samples;
  }
  double loss() const { return loss_ / samples_; }
  double error(size_t channel) const { return errors_[channel] / samples_; }
  void count(const float* classes, int64_t samples) {
    for (int64_t i = 0; i < samples; ++i) ++frequency_[static_cast<int64_t>(classes[i])];
  }
  double most_frequent() const {  // the most frequent class's share of the samples
    double most = 0;
    for (const auto& [of, count] : frequency_) most = std::max(most, static_cast<double>(count));
    return most / samples_;
  }

 private:
  std::map<int64_t, int64_t> frequency_;
  std::vector<double> errors_;
  double loss_ = 0, samples_ = 0;
};

/// `q.out`: netCDF, or NumPy's .npz. The file of a classifier holds the probable class and all probabilities.
ForecastScores forecast_samples(const StepsQuestion& q, const NetAndData& from);

}  // namespace isobar::forecast
