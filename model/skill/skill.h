// How good forecasts of fields are, by lead time and channel, as weather centres judge them.
//
//   Skill skill(leads, channels, area_weights(H, W, latitudes));
//   skill.add(lead, prediction, truth, climatology);     // one sample, [C, H, W] each, in physical units
//   skill.of(lead, c).rmse
//
// Each is a mean over samples (Rasp 2024, WeatherBench 2), of what a sample has over its points; w sums to 1
// over the points, e = prediction - truth:
//   RMSE         sqrt(sum w e^2)                     as the engine's validation has it
//   MAE          sum w |e|,  bias  sum w e
//   correlation  of prediction and truth over the points, weighted (Pearson's)
//   ACC          sum w p' t' / sqrt(sum w p'^2 sum w t'^2), p' and t' less the climatology (not centred
//   again)
// and by class of the truth, between thresholds a <= t < b, over all samples and points whose weight is not
// 0:
//   RMSE         sqrt(sum w e^2 / sum w)
//   CSI          hits / (hits + misses + false alarms) of "at or above a" (Schaefer 1990)
#pragma once
#include <cstdint>
#include <vector>

namespace isobar {

/// [H, W]: cos(latitude) (model/base/latitude.h), their sum 1. `latitudes`: degrees, of the rows; {}: from
/// pole to pole.
std::vector<double> area_weights(int64_t height, int64_t width, const std::vector<double>& latitudes);

/// Where the truth lies from here up to there; the outermost have no end (-inf, inf).
struct ClassScore {
  double from, to;
  double share;      // of all weights
  double rmse, csi;  // csi: of "at or above from"
};

/// NaN: not known, for want of a sample, of a climatology, of an end, or of anything that varies.
struct SkillScore {
  double rmse, mae, bias, correlation, acc;
  std::vector<ClassScore> classes;  // ascending, one more than thresholds; {}: there are none
};

class Skill {
 public:
  /// `weights` [H, W], their sum 1: points of weight 0 do not count. `thresholds`, by channel in physical
  /// units, make classes; {}: none.
  Skill(int64_t leads, int64_t channels, std::vector<double> weights,
        std::vector<std::vector<double>> thresholds = {});
  /// Points of which the truth is NaN are missing: means are over the others. `climatology` may be null: then
  /// there is no ACC. Returns the sample's RMSE by channel.
  std::vector<double> add(int64_t lead, const float* prediction, const float* truth,
                          const float* climatology);
  SkillScore of(int64_t lead, int64_t channel) const;

 private:
  struct Mean {
    double sum = 0;
    int64_t samples = 0;
    void add(double x);  // of NaN: nothing
    double value() const;
  };
  struct OfClass {
    double weight = 0, squares = 0;
    int64_t hits = 0, either = 0;  // either: of the prediction and the truth, at or above where it begins
  };
  struct Sums {
    Mean rmse, mae, bias, correlation, acc;
    std::vector<OfClass> classes;
  };
  void add_classes(const float* prediction, const float* truth, const std::vector<double>& thresholds,
                   std::vector<OfClass>& classes) const;
  int64_t channels_;
  std::vector<double> weights_;
  std::vector<std::vector<double>> thresholds_;  // by channel, ascending
  std::vector<Sums> sums_;                       // [leads][channels]
};

}  // namespace isobar
