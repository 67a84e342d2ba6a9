// Prices from measured steps: a log-normal prior around the spec sheet, moved by other campaigns (a
// hierarchical model: campaigns differ from their common mean by PriceInfo::differs), then by this campaign's
// training runs (robust maximum a posteriori).
//
//   PriceBelief others = believe(kStepSeconds, {vtrain_samples, sc21_samples});   // what other campaigns say
//   Eigen::VectorXd log_prices = fitted_prices(kStepSeconds, training_samples, others);
#pragma once
#include <Eigen/Core>
#include <vector>

#include "perfmodel/score/sample.h"

namespace isobar {

/// Gaussian over the logarithms of prices of a campaign nobody has seen.
struct PriceBelief {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
};
PriceBelief believe(const Quantity& quantity, const std::vector<Samples>& campaigns);
PriceBelief spec_belief(const Quantity& quantity);
/// Logarithms of prices that suit these samples best, bounds among them.
Eigen::VectorXd fitted_prices(const Quantity& quantity, const Samples& training, const PriceBelief& belief);

/// d log value / d log price of each price.
Eigen::VectorXd gradient(const Quantity& quantity, const Sample& sample, Eigen::VectorXd log_prices);
Eigen::MatrixXd jacobian(const Quantity& quantity, const Samples& rows, const Eigen::VectorXd& log_prices);
/// log measured - log value
Eigen::VectorXd residuals(const Quantity& quantity, const Samples& rows, const Eigen::VectorXd& log_prices);

}  // namespace isobar
