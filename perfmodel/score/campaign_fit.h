// Predictions with an interval, from one campaign's training runs.
//
//   CampaignFit fit(kStepSeconds, training_samples, believe(kStepSeconds, voices_of_others));
//   Estimated e = fit.predict(sample);      // e.value in e.lower ... e.upper, 80 %
//
// Prices first (price_fit.h). What counts times prices leave unexplained: a Gaussian process over logarithms
// of the layout (Rasmussen & Williams 2006, Matern 3/2, its length scales by marginal likelihood), together
// with the prices' own remaining uncertainty. Width of the interval: the quantile of standardised
// leave-one-out errors of the training runs. A layout, model, GPU count, precision or machine that no
// training run had adds the variance by which such groups were off when all of one was held out, and has the
// quantile of those errors. With no training runs at all, what other campaigns were off by when held out
// (doubt.h).
#pragma once
#include <Eigen/Core>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "perfmodel/score/estimated.h"
#include "perfmodel/score/price_fit.h"

namespace isobar {

class CampaignFit {
 public:
  /// `training` may be empty: then the belief alone predicts.
  CampaignFit(const Quantity& quantity, const Samples& training, const PriceBelief& belief);
  Estimated predict(const Sample& s) const;
  const Eigen::VectorXd& log_prices() const { return prices_; }
  /// Of the errors of two predictions, in logarithms: what they share cancels between them.
  double covariance(const Sample& a, const Sample& b) const;

 private:
  void learn_scales();
  void condition();
  void calibrate();
  void hold_out(const std::string& what, const std::set<std::string>& sources);
  /// What of it no training run had: "model", "gpus", ...
  std::vector<std::string> news_of(const Sample& s) const;
  Eigen::VectorXd kernel(const Sample& s) const;  // with every training run
  double kernel(const Sample& a, const Sample& b) const;
  double width(const Sample& s, const std::vector<std::string>& news) const;  // sigmas of the 80 % interval

  const Quantity& quantity_;
  PriceBelief belief_;
  Samples rows_;
  std::vector<bool> ordinary_;            // runs that their neighbours do not contradict
  Eigen::VectorXd prices_;                // log
  Eigen::MatrixXd jacobian_;              // [n, prices] d log step / d log price
  Eigen::MatrixXd features_;              // [n, d]
  Eigen::VectorXd residual_;              // against the belief's mean, linearised
  Eigen::VectorXd scales_;                // length scales [d]
  double amplitude_ = 0, noise_ = 0;      // log sigmas
  double offset2_ = 0;                    // squared: of a campaign
  std::vector<double> levels_;            // log sigma of what the members of one group share, by kLevels
  std::vector<std::vector<int>> groups_;  // [level][row]
  std::vector<std::map<std::string, int>> group_of_;  // [level]
  double different_ = 1;                              // training runs, repetitions not counted
  double floor_ = 0;                                  // nobody's clock and cluster repeat better
  Eigen::VectorXd alpha_;                             // K^-1 residual
  Eigen::MatrixXd inverse_;                           // K^-1
  Eigen::MatrixXd spread_;                            // jacobian * covariance
  std::map<std::string, double> news_;                // what is new -> variance beyond the process
  std::map<std::string, std::map<std::string, double>> quantiles_;  // source -> what is left out -> sigmas
};

}  // namespace isobar
