// Order statistics and ranks.
//
//   quantile(errors, 0.9);   spearman(measured, predicted);
#pragma once
#include <vector>

namespace isobar {

/// Order statistic at `share` with linear interpolation; 0 of nothing.
double quantile(std::vector<double> values, double share);
/// Rank correlation, ties at their mean rank; 0 where one of them does not vary.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace isobar
