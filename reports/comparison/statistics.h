// Statistics for comparisons.
#pragma once
#include <vector>

namespace isobar::report {

/// P(T <= t) of Student's distribution with `df` degrees of freedom.
double student_cdf(double t, double df);
/// The t with P(-t <= T <= t) = share.
double student_quantile(double share, double df);
double mean_of(const std::vector<double>& v);
/// The middle of at least one value.
double median_of(std::vector<double> v);
/// Sample variance (n - 1); 0 for fewer than two values.
double variance_of(const std::vector<double>& v);

}  // namespace isobar::report
