// Least squares on relative errors over log coefficients, with a Gaussian prior: coefficients stay positive,
// few measurements suffice, and the answer has a covariance.
//
//   Solution s = solve(observations, prior, start);
//   s.coefficients, s.covariance (of their logs), s.leave_one_out[i]
//
// The prior's covariance has a hierarchy: members of a family move together unless measurements separate
// them. Outliers are damped (Huber). Solved by Ceres; the posterior is the Gaussian at the solution.
#pragma once
#include <Eigen/Core>
#include <functional>
#include <string>
#include <vector>

#include "perfmodel/machine/machine.h"

namespace isobar::perf {

struct Observation {
  std::function<double(const Counts&)> model;  // seconds, from coefficients
  double measured = 0;                         // seconds
  double sigma = 0;                            // of log(measured)
  std::vector<int> effects = {};               // shared log deviations of its groups
  std::vector<size_t> felt = {};               // coefficients that can move the model; {}: any
};

struct Prior {
  Eigen::VectorXd mean;        // of log coefficients [kCoefs]
  Eigen::MatrixXd covariance;  // [kCoefs, kCoefs]
  Eigen::VectorXd floor;       // log of the physical minimum; -inf: none
};

/// A machine file's coefficients as a prior. `drift`: log sigma between a benchmark and the same work inside
/// a training step, not added to coefficients without measurements.
Prior prior_of(const Machine& m, double drift);

struct Solution {
  Counts coefficients{};
  Eigen::VectorXd effects;                 // log deviations of the groups
  Eigen::MatrixXd covariance;              // of log coefficients and effects, in this order
  Eigen::VectorXd residuals;               // log(measured / model)
  Eigen::VectorXd leverage;                // 0 ... 1: an observation's weight in its own fitted value
  Eigen::VectorXd leave_one_out;           // log error of each observation if left out
  Eigen::VectorXd leave_one_out_variance;  // the model's variance there
  Eigen::MatrixXd jacobian;                // d log model / d (log coefficient, effect)
};

/// `effect_sigma`: standard deviation of each group's effect, with mean zero.
Solution solve(const std::vector<Observation>& observations, const Prior& prior, const Counts& start,
               const std::vector<double>& effect_sigma = {});

/// d log model / d log coefficient by central differences.
Eigen::VectorXd log_gradient(const std::function<double(const Counts&)>& model, const Counts& at,
                             const std::vector<size_t>& felt = {});
/// The coefficients that change the model when scaled a thousandfold either way.
std::vector<size_t> felt_by(const std::function<double(const Counts&)>& model, const Counts& at);

}  // namespace isobar::perf
