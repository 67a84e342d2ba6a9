// Verifies a trained net: rolls it forward from every sample of its data, and scores each lead.
//
//   const Verification v = verify({.from = "runs/first", .steps = 4});
//   v.net.of(3, 0).rmse                   // of channel 0, four data.dt ahead
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/skill/verification.h"

namespace isobar::forecast {

struct VerifyQuestion {
  std::string from, data;   // a run or a checkpoint; as data.valid, "": the run's own validation data
  std::string climatology;  // files to take the mean of, "": the run's data.train
  int64_t steps = 0;        // 0: as in training
  int64_t samples = 0;      // 0: all
  int threads = 1;
  std::map<std::string, std::vector<double>> thresholds;  // class bounds, by target in its units
  std::vector<double> region;  // north, west, south, east in degrees: only its points count; {}: all do
  bool bar = true;
};

/// Throws ConfigError, also for a net that cannot roll out that far.
skill::Verification verify(const VerifyQuestion& q);

}  // namespace isobar::forecast
