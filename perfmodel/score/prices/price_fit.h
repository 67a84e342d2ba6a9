// Prices from measured steps: a log-normal prior around the spec sheet, updated by other campaigns
// (hierarchically: campaigns differ from their common mean by PriceInfo::differs), then by this campaign's
// training runs (robust maximum a posteriori).
//
//   PriceBelief others = believe(kStepSeconds, {voice_of(kStepSeconds, vtrain_samples)});
//   Eigen::VectorXd log_prices = fitted_prices(kStepSeconds, training_samples, others);
#pragma once
#include <Eigen/Core>
#include <string>
#include <vector>

#include "perfmodel/score/prices/doubt.h"
#include "perfmodel/score/prices/sample.h"

namespace isobar::perf {

/// Gaussian over the log prices of an unseen campaign.
struct PriceBelief {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
  /// Prices, in columns: at the mean, and at both ends of each principal axis' 80 % interval.
  Eigen::MatrixXd ends{};
  /// Errors of such a campaign in sigmas of unseen_spread, from campaigns held out.
  Tails tails{};
};
/// One campaign's evidence on its prices: a Gaussian's precision, and precision times mean.
struct Voice {
  std::string name;                       // of the campaign
  Samples rows;                           // thinned
  const ForeignEngine* engine = nullptr;  // null: unknown
  Tuned tuned;
  Eigen::MatrixXd precision;
  Eigen::VectorXd vector;
};
Voice voice_of(const Quantity& quantity, const Samples& campaign);
/// Belief on an unseen campaign of an engine (nullptr: unknown) with this tuning. Part of campaigns'
/// deviation is shared within an engine's family (Quantity::family), and part follows tuning
/// (PriceInfo::tuned).
PriceBelief believe(const Quantity& quantity, const std::vector<Voice>& campaigns,
                    const ForeignEngine* engine = nullptr, const Tuned& tuned = {});
PriceBelief spec_belief(const Quantity& quantity);
/// Model variance grows with log(step / device_floor). `sigma`: of a step e times as long; elsewhere in
/// proportion to that power of the logarithm.
double far_variance(const Quantity& quantity, const Sample& sample, double log_value, double sigma,
                    double power = 1);
/// Log sigmas of a run of an unseen campaign, below and above: its prices' uncertainty, each principal axis
/// tried both ways (what hides under products at the likeliest prices may surface), misfit, and far_variance.
struct Spread {
  double below, above;
};
Spread unseen_spread(const Quantity& quantity, const Sample& sample, const PriceBelief& belief);
/// Log prices that fit these samples best, bounds included.
Eigen::VectorXd fitted_prices(const Quantity& quantity, const Samples& training, const PriceBelief& belief);

/// With prices of these logarithms.
double log_value(const Quantity& quantity, const Sample& sample, const Eigen::VectorXd& log_prices);

/// Log sigmas beyond prices: of a campaign as a whole, and of layout-dependent errors.
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

}  // namespace isobar::perf
