#include "perfmodel/score/prices/doubt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {

/// Abramowitz & Stegun 26.7.5: within 0.005 from 2 degrees of freedom on.
double student80(double freedom) {
  const double z = kNormal80, z2 = z * z;
  return z + z *
                 ((z2 + 1) / 4 + ((5 * z2 + 16) * z2 + 3) / (96 * freedom) +
                  (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * freedom * freedom)) /
                 freedom;
}

constexpr double kNarrowest = 0.7;

Tails tails_of(const std::vector<std::vector<double>>& groups) {
  std::vector<std::pair<double, double>> errors;   // and weight
  std::vector<std::pair<double, double>> middles;  // of groups, and their variance
  for (const std::vector<double>& g : groups) {
    if (g.empty()) continue;
    for (double e : g) errors.emplace_back(e, 1 / static_cast<double>(g.size()));
    middles.emplace_back(quantile(g, 0.5), 0.0);
  }
  const auto own = static_cast<double>(middles.size());
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  // The error below which this number of groups lie, interpolated between neighbours.
  const auto at = [&](double groups_below) {
    double below = 0, last = -INFINITY, error = errors.front().first;
    for (const auto& [e, weight] : errors) {
      const double middle = below + weight / 2;
      if (middle >= groups_below)
        return std::isinf(last) ? e : error + (e - error) * (groups_below - last) / (middle - last);
      below += weight;
      last = middle;
      error = e;
    }
    return error;
  };
  // The next error has any rank among n + 1 with equal chance: a tenth lies below the 0.1 (n + 1)-th.
  const double beyond = 0.1 * (own + 1) - 0.5;
  // Groups whose medians lie closer together than their sigmas say so of the next, too, but no more than
  // kNarrowest.
  const double scale = std::clamp(spread_of(middles, 1), kNarrowest, 1.0);
  const auto with_prior = [&](double q, double prior) {
    return (own * q + kPriorGroups * prior) / (own + kPriorGroups);
  };
  return {std::min(0.0, with_prior(at(beyond), -kNormal80 * scale)),
          std::max(0.0, with_prior(at(own - beyond), kNormal80 * scale))};
}

double spread_of(const std::vector<std::pair<double, double>>& means, double prior) {
  double best = prior, least = INFINITY;
  // n groups held out in turn have n - 1 independent deviations: both of two have the same.
  const double n = static_cast<double>(means.size()), independent = n > 0 ? (n - 1) / n : 0;
  for (int i = -40; i <= 40; ++i) {
    const double x = 0.1 * i, sigma = prior * std::exp(x);
    double cost = 0.5 * x * x / (kPriorSpread * kPriorSpread);
    for (const auto& [off, variance] : means)
      cost +=
          0.5 * independent * (std::log(variance + sigma * sigma) + off * off / (variance + sigma * sigma));
    if (cost >= least) continue;
    least = cost;
    best = sigma;
  }
  return best;
}

}  // namespace isobar::perf
