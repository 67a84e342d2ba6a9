// Statistics for comparisons.
#pragma once
#include <vector>

namespace isobar {

/// P(T <= t) of Student's distribution with `df` degrees of freedom.
double student_cdf(double t, double df);
/// The t with P(-t <= T <= t) = share.
double student_quantile(double share, double df);
/// P values adjusted by Benjamini and Hochberg (1995): rejecting those <= q gives a false discovery rate of
/// q. NaN stays NaN and does not count.
std::vector<double> adjusted(const std::vector<double>& p);
double mean_of(const std::vector<double>& v);
/// Sample variance (n - 1); 0 for fewer than two values.
double variance_of(const std::vector<double>& v);

}  // namespace isobar
