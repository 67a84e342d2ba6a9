// Error bounds for a new group (a campaign, a model), from groups that were held out in turn.
//
//   Tails t = tails_of({{0.2, 1.1}, {-0.4}, {2.3, 1.9, 2.0}});   // standardised errors of three campaigns
//   // 80 % of a fourth campaign's errors are in t.low ... t.high sigmas
//
// Rows of a group are wrong together, so every group has the same weight. The next of n groups may have any
// of n + 1 ranks, of which 80 % are covered (Dunn, Wasserman & Ramdas 2022); a normal distribution as wide as
// the groups' medians are counts as kPriorGroups more groups.
#pragma once
#include <utility>
#include <vector>

#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// Weight of a prior spread, in held-out groups.
constexpr double kPriorGroups = 2;
/// Log sigma of a spread learnt from that number: pi / sqrt(24).
constexpr double kPriorSpread = 0.6413;

/// Sigmas that contain 80 % of Student's t with `freedom` (at least kPriorGroups) degrees of freedom.
double student80(double freedom);

struct Tails {
  double low = -kNormal80, high = kNormal80;
};
Tails tails_of(const std::vector<std::vector<double>>& groups);

/// The sigma of groups beyond their fit's variance, by maximum posterior under a log-normal prior; `means`:
/// group errors and variances. `prior`: sigma before any group was held out.
double spread_of(const std::vector<std::pair<double, double>>& means, double prior);

}  // namespace isobar::perf
