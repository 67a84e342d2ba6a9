// Order statistics and ranks.
//
//   quantile(errors, 0.9);   spearman(measured, predicted);
#pragma once
#include <vector>

#include "model/base/step_stats.h"  // quantile

namespace isobar {

/// Rank correlation, ties at their mean rank; 0 where one of them does not vary.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

/// Share of a standard normal below x.
double normal_cdf(double x);

}  // namespace isobar
