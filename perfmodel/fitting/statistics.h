// Order statistics and ranks.
//
//   quantile(errors, 0.9);   spearman(measured, predicted);
#pragma once
#include <vector>

#include "model/base/step_stats.h"  // quantile

namespace isobar::perf {

/// Spearman's rank correlation, ties at their mean rank; 0 if one of them is constant.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

/// Standard normal distribution function.
double normal_cdf(double x);

}  // namespace isobar::perf
