// Scores of a trained net's forecasts by lead time, beside persistence and climatology.
// model/forecast/verify.h computes them, reports/pages/pages.h shows them.
//
//   v.net.of(3, 0).rmse                   // of channel 0, four data.dt ahead
#pragma once
#include <string>
#include <vector>

#include "model/inference/weights/net_channels.h"
#include "model/skill/error_map.h"
#include "model/skill/skill.h"
#include "model/skill/spectrum.h"

namespace isobar::skill {

struct Verification {
  std::string checkpoint, of_data;
  int64_t trained_steps = 0, samples = 0;
  std::vector<inference::NetChannel> channels;
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

}  // namespace isobar::skill
