// A trained net judged as forecasts are: rolled forward from every sample of its data, each lead beside
// persistence and climatology. What `isobar verify` prints and draws.
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
  std::string from, data;   // a run or a checkpoint; as data.valid, "": what the run was validated on
  std::string climatology;  // files whose mean it is, "": the run's data.train
  int64_t steps = 0;        // 0: as many as it was trained to roll out
  int64_t samples = 0;      // 0: all
  int threads = 1;
  std::map<std::string, std::vector<double>> thresholds;  // of classes, by target in its units
  std::vector<double> region;  // north, west, south, east in degrees: only its points count; {}: all do
  bool bar = true;
};

struct Verification {
  std::string checkpoint, of_data;
  int64_t trained_steps = 0, samples = 0;
  std::vector<NetChannel> channels;
  std::vector<double> lead_hours;  // NaN: the files do not say
  Skill net, persistence, climatology;
  int64_t climatology_fields = 0;  // 0: there is none, because of …
  std::string no_climatology;
  struct Case {
    double hours;  // since 1970, of the newest input
    double error;  // RMSE at the last lead, mean over normalised channels
  };
  std::vector<Case> cases;                         // in the order of the samples
  std::vector<ZonalSpectrum> predicted, observed;  // by lead; of whole fields alone
  ErrorMap map;                                    // at the last lead, of what counts
};

/// Throws ConfigError, also for a net that cannot be rolled forward so far.
Verification verify(const VerifyQuestion& q);

}  // namespace isobar
