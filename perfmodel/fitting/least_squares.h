// Least squares on relative error in the logarithms of coefficients, with what is known beforehand as a
// Gaussian prior: coefficients stay positive, few measurements suffice, and the answer comes with a
// covariance.
//
//   Solution s = solve(observations, prior, start);
//   s.coefficients, s.covariance (of their logs), s.leave_one_out[i]
//
// The prior's covariance carries the hierarchy: members of a family move together unless measurements part
// them. Outliers count with their root (Huber). Solved by Ceres; the posterior is the Gaussian at its answer.
#pragma once
#include <Eigen/Core>
#include <functional>
#include <string>
#include <vector>

#include "perfmodel/machine/machine.h"

namespace isobar {

struct Observation {
  std::function<double(const Counts&)> model;  // seconds, from coefficients
  double measured = 0;                         // seconds
  double sigma = 0;                            // of log(measured)
  std::vector<int> effects = {};               // log deviations that it shares with others of its group
  std::vector<size_t> felt = {};               // coefficients that can move the model; {}: any
};

struct Prior {
  Eigen::VectorXd mean;        // of log coefficients [kCoefs]
  Eigen::MatrixXd covariance;  // [kCoefs, kCoefs]
  Eigen::VectorXd floor;       // log of the least value that physics allows; -inf: none
};

/// What a machine file says about its coefficients. `drift`: log sigma by which costs inside a training step
/// differ from what a benchmark measured alone; it is not added to coefficients that nothing measured.
Prior prior_of(const Machine& m, double drift);

struct Solution {
  Counts coefficients{};
  Eigen::VectorXd effects;                 // log deviations of the groups
  Eigen::MatrixXd covariance;              // of log coefficients and effects, in this order
  Eigen::VectorXd residuals;               // log(measured / model)
  Eigen::VectorXd leverage;                // 0 ... 1: how much an observation decides its own value
  Eigen::VectorXd leave_one_out;           // log error of each observation had it not been fitted to
  Eigen::VectorXd leave_one_out_variance;  // of the model there
  Eigen::MatrixXd jacobian;                // d log model / d (log coefficient, effect)
};

/// `effect_sigma`: how far each group may deviate from the model; zero on average.
Solution solve(const std::vector<Observation>& observations, const Prior& prior, const Counts& start,
               const std::vector<double>& effect_sigma = {});

/// d log model / d log coefficient by central differences.
Eigen::VectorXd log_gradient(const std::function<double(const Counts&)>& model, const Counts& at,
                             const std::vector<size_t>& felt = {});
/// The coefficients that move the model when they grow or shrink a thousandfold.
std::vector<size_t> felt_by(const std::function<double(const Counts&)>& model, const Counts& at);

}  // namespace isobar
