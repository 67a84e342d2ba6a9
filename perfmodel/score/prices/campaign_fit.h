// Predictions with intervals from one campaign's training runs.
//
//   CampaignFit fit(kStepSeconds, training_samples, believe(kStepSeconds, voices_of_others));
//   Estimated e = fit.predict(sample);      // e.value in e.lower ... e.upper, 80 %
//
// Prices are fitted first (price_fit.h). The residual of counts times prices is a Gaussian process over
// logarithms of the layout (Rasmussen & Williams 2006, Matern 3/2, length scales by marginal likelihood),
// with the prices' remaining uncertainty. The interval's width is the quantile of standardised leave-one-out
// errors. A new layout, model, GPU count, precision or machine adds the variance of such groups when held
// out, and uses their quantile; without training runs other campaigns' held-out errors are used (doubt.h).
#pragma once
#include <Eigen/Core>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "perfmodel/score/prices/price_fit.h"
#include "perfmodel/score/prices/prices.h"

namespace isobar::perf {

class CampaignFit {
 public:
  /// `training` may be empty: then the belief alone predicts.
  CampaignFit(const Quantity& quantity, const Samples& training, const PriceBelief& belief);
  Estimated predict(const Sample& s) const;
  const Eigen::VectorXd& log_prices() const { return prices_; }
  /// Covariance of two predictions' log errors: shared errors cancel between them.
  double covariance(const Sample& a, const Sample& b) const;

 private:
  void learn_scales();
  void condition();
  void calibrate();
  void hold_out(const std::string& what, const std::set<std::string>& sources);
  /// Its values that no training run had: "model", "gpus", ...
  std::vector<std::string> news_of(const Sample& s) const;
  Eigen::VectorXd kernel(const Sample& s) const;  // with every training run
  double kernel(const Sample& a, const Sample& b) const;
  double few() const;  // share of the prior in what its runs tell: 1 without any
  double width(const Sample& s, const std::vector<std::string>& news) const;  // half width in sigmas

  const Quantity& quantity_;
  PriceBelief belief_;
  Samples rows_;
  std::vector<bool> ordinary_;                        // runs that their neighbours do not contradict
  Eigen::VectorXd prices_;                            // log
  Eigen::MatrixXd jacobian_;                          // [n, prices] d log step / d log price
  Eigen::MatrixXd features_;                          // [n, d]
  Eigen::VectorXd residual_;                          // against the belief's mean, linearised
  Eigen::VectorXd scales_;                            // length scales [d]
  double amplitude_ = 0, noise_ = 0;                  // log sigmas
  double usual_noise_ = 0;                            // expected of noise_, before its runs tell
  double offset2_ = 0;                                // variance of a campaign's offset
  std::vector<double> levels_;                        // log sigma shared by a group's members, by kLevels
  std::vector<std::vector<int>> groups_;              // [level][row]
  std::vector<std::map<std::string, int>> group_of_;  // [level]
  double different_ = 1;                              // training runs without repetitions
  double floor_ = 0;                                  // least noise of any clock and cluster
  Eigen::VectorXd alpha_;                             // K^-1 residual
  Eigen::MatrixXd inverse_;                           // K^-1
  Eigen::MatrixXd spread_;                            // jacobian * covariance
  std::map<std::string, double> news_;                // new value -> variance beyond the process
  std::map<std::string, std::map<std::string, double>> quantiles_;  // source -> held-out kind -> sigmas
};

}  // namespace isobar::perf
