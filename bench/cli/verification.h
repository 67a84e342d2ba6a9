// Scores of a trained net's forecasts: rolled forward from every sample of its data, each lead beside
// persistence and climatology. `isobar verify` prints and draws them.
//
//   const Verification v = verify({.from = "runs/first", .steps = 4});
//   v.net.of(3, 0).rmse                   // of channel 0, four data.dt ahead
#pragma once
#include <map>
#include <string>
#include <vector>

#include "bench/cli/net_and_data.h"
#include "model/skill/error_map.h"
#include "model/skill/skill.h"
#include "model/skill/spectrum.h"

namespace isobar {

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

struct Verification {
  std::string checkpoint, of_data;
  int64_t trained_steps = 0, samples = 0;
  std::vector<NetChannel> channels;
  std::vector<double> lead_hours;  // NaN: the files give none
  Skill net, persistence, climatology;
  int64_t climatology_fields = 0;  // 0: no climatology, for the reason in …
  std::string no_climatology;
  struct Case {
    double hours;  // since 1970, time of the newest input
    double error;  // RMSE at the last lead, mean over normalised channels
  };
  std::vector<Case> cases;                         // in the order of the samples
  std::vector<ZonalSpectrum> predicted, observed;  // by lead; only of whole fields
  ErrorMap map;                                    // at the last lead, of the points that count
};

/// Throws ConfigError, also for a net that cannot roll out that far.
Verification verify(const VerifyQuestion& q);

}  // namespace isobar
