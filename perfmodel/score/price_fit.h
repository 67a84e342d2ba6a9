// Prices from measured steps: a log-normal prior around the spec sheet, moved by other campaigns (a
// hierarchical model: campaigns differ from their common mean by PriceInfo::differs), then by this campaign's
// training runs (robust maximum a posteriori).
//
//   PriceBelief others = believe(kStepSeconds, {voice_of(kStepSeconds, vtrain_samples)});   // what others
//   say Eigen::VectorXd log_prices = fitted_prices(kStepSeconds, training_samples, others);
#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "perfmodel/score/doubt.h"
#include "perfmodel/score/sample.h"

namespace isobar {

/// Gaussian over the logarithms of prices of a campaign nobody has seen.
struct PriceBelief {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
  /// Main axes of the covariance, one sigma long, in columns.
  Eigen::MatrixXd axes{};
  /// What such a campaign is wrong by, in sigmas of unseen_spread: campaigns predicted from the others.
  Tails tails{};
};
/// What one campaign's runs say about its prices: a Gaussian's precision, and precision times mean.
struct Voice {
  std::string name;                       // of the campaign
  Samples rows;                           // thinned
  const ForeignEngine* engine = nullptr;  // none: nobody knows it
  Tuned tuned;
  Eigen::MatrixXd precision;
  Eigen::VectorXd vector;
};
Voice voice_of(const Quantity& quantity, const Samples& campaign);
/// Of a campaign that none of these is, of an engine (nullptr: of one that nobody knows) and so tuned. What
/// campaigns deviate by from the mean of all is shared in part by those of an engine's family
/// (Quantity::family), and follows in part how tuned they are (PriceInfo::tuned).
PriceBelief believe(const Quantity& quantity, const std::vector<Voice>& campaigns,
                    const ForeignEngine* engine = nullptr, const Tuned& tuned = {});
PriceBelief spec_belief(const Quantity& quantity);
/// A step is as unsure as it is far from its products at the peak and its pipeline's bubble: variance of one
/// of so long.
/// `sigma`: of a step that takes e times as long.
double far_variance(const Quantity& quantity, const Sample& sample, double log_value, double sigma);
/// Log sigmas of a run whose campaign nobody has seen: what its prices may be, each main axis of their doubt
/// tried both ways (what hides under the products at the likeliest prices surfaces at others), what prices do
/// not explain, and that a step is as unsure as it is far from its products at the peak.
struct Spread {
  double below, above;
};
Spread unseen_spread(const Quantity& quantity, const Sample& sample, const PriceBelief& belief);
/// Logarithms of prices that suit these samples best, bounds among them.
Eigen::VectorXd fitted_prices(const Quantity& quantity, const Samples& training, const PriceBelief& belief);

/// With prices of these logarithms.
double log_value(const Quantity& quantity, const Sample& sample, const Eigen::VectorXd& log_prices);

/// Log sigmas that prices leave: of a campaign as a whole, and of what follows the layout.
inline double offset_sigma(const Quantity& q) {
  return 1.25 * q.misfit;
}
inline double process_sigma(const Quantity& q) {
  return 1.25 * q.misfit;
}

/// d log value / d log price of each price.
Eigen::VectorXd gradient(const Quantity& quantity, const Sample& sample, const Eigen::VectorXd& log_prices);
Eigen::MatrixXd jacobian(const Quantity& quantity, const Samples& rows, const Eigen::VectorXd& log_prices);
/// log measured - log value
Eigen::VectorXd residuals(const Quantity& quantity, const Samples& rows, const Eigen::VectorXd& log_prices);

}  // namespace isobar
