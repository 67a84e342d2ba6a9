// Scores of forecasts by lead time and channel, as weather centres compute them.
//
//   Skill skill(leads, channels, area_weights(H, W, latitudes));
//   skill.add(lead, prediction, truth, climatology);     // one sample, [C, H, W] each, in physical units
//   skill.of(lead, c).rmse
//
// Each is a mean over samples (Rasp 2024, WeatherBench 2) of a sample's score over its points; w sums to 1
// over the points, e = prediction - truth:
//   RMSE         sqrt(sum w e^2)                     as in the engine's validation
//   MAE          sum w |e|,  bias  sum w e
//   correlation  of prediction and truth over the points, weighted (Pearson's)
//   ACC          sum w p' t' / sqrt(sum w p'^2 sum w t'^2), p' and t' minus the climatology (not recentred)
// By class of the truth, between thresholds a <= t < b, over all samples and points with weight:
//   RMSE         sqrt(sum w e^2 / sum w)
//   CSI          hits / (hits + misses + false alarms) of "at or above a" (Schaefer 1990)
#pragma once
#include <cstdint>
#include <vector>

namespace isobar::skill {

/// [H, W]: cos(latitude) (model/base/latitude.h), with sum 1. `latitudes`: of the rows, in degrees; {}: from
/// pole to pole.
std::vector<double> area_weights(int64_t height, int64_t width, const std::vector<double>& latitudes);

/// The class of truths in [from, to); the outermost are unbounded (-inf, inf).
struct ClassScore {
  double from, to;
  double share;      // of all weights
  double rmse, csi;  // csi: of "at or above from"
};

/// NaN: undefined, for lack of a sample, a climatology, a threshold or variance.
struct SkillScore {
  double rmse, mae, bias, correlation, acc;
  std::vector<ClassScore> classes;  // ascending, one more than thresholds; {}: no thresholds
};

class Skill {
 public:
  /// `weights` [H, W], with sum 1: points of weight 0 do not count. `thresholds`, by channel in physical
  /// units, define classes; {}: none.
  Skill(int64_t leads, int64_t channels, std::vector<double> weights,
        std::vector<std::vector<double>> thresholds = {});
  /// Points whose truth is NaN are missing. Without `climatology` (null) there is no ACC. Returns the
  /// sample's RMSE by channel.
  std::vector<double> add(int64_t lead, const float* prediction, const float* truth,
                          const float* climatology);
  SkillScore of(int64_t lead, int64_t channel) const;

 private:
  struct Mean {
    double sum = 0;
    int64_t samples = 0;
    void add(double x);  // ignores NaN
    double value() const;
  };
  struct OfClass {
    double weight = 0, squares = 0;
    int64_t hits = 0, either = 0;  // either: prediction or truth at or above the class's lower bound
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

}  // namespace isobar::skill
