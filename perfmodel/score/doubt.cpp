#include "perfmodel/score/doubt.h"

#include <algorithm>
#include <utility>

namespace isobar {

/// Abramowitz & Stegun 26.7.5: to 0.005 from 2 degrees of freedom on.
double student80(double freedom) {
  const double z = kNormal80, z2 = z * z;
  return z + z *
                 ((z2 + 1) / 4 + ((5 * z2 + 16) * z2 + 3) / (96 * freedom) +
                  (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * freedom * freedom)) /
                 freedom;
}

Tails tails_of(const std::vector<std::vector<double>>& groups) {
  std::vector<std::pair<double, double>> errors;  // and weight
  double own = 0;
  for (const std::vector<double>& g : groups) {
    for (double e : g) errors.emplace_back(e, 1 / static_cast<double>(g.size()));
    own += g.empty() ? 0 : 1;
  }
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double share) {
    double below = 0;
    for (const auto& [e, weight] : errors)
      if ((below += weight) >= share * own) return e;
    return errors.back().first;
  };
  const double beyond = std::max(0.0, (1 - 0.8 * (own + 1) / own) / 2);
  const auto with_prior = [&](double q, double prior) {
    return (own * q + kPriorGroups * prior) / (own + kPriorGroups);
  };
  return {std::min(0.0, with_prior(at(beyond), -kNormal80)),
          std::max(0.0, with_prior(at(1 - beyond), kNormal80))};
}

}  // namespace isobar
