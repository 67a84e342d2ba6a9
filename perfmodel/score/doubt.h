// How wrong the next group will be (a campaign, a model), from groups that were held out one by one.
//
//   Tails t = tails_of({{0.2, 1.1}, {-0.4}, {2.3, 1.9, 2.0}});   // standardised errors of three campaigns
//   // 80 % of what a fourth has lies in t.low ... t.high sigmas
//
// Groups count, not rows: the rows of a group are wrong together. Every group weighs alike, and of n groups
// and the next one, which may be any of the n + 1, 80 % are to be held (Dunn, Wasserman & Ramdas 2022); the
// normal law counts as kPriorGroups more of them.
#pragma once
#include <utility>
#include <vector>

#include "perfmodel/machine/machine.h"

namespace isobar {

/// What is believed of a spread before any group was held out weighs as much as so many groups.
constexpr double kPriorGroups = 2;
/// Log sigma of a spread that is learnt from as many: pi / sqrt(24).
constexpr double kPriorSpread = 0.6413;

/// 80 % of Student's t with so many degrees of freedom (kPriorGroups and more) lies within so many sigmas.
double student80(double freedom);

struct Tails {
  double low = -kNormal80, high = kNormal80;
};
Tails tails_of(const std::vector<std::vector<double>>& groups);

/// Group means, off by `first` where their fit said a variance of `second`: the sigma that groups deviate by
/// beyond it, most likely under a log-normal prior. `prior` is the sigma before any group was held out.
double spread_of(const std::vector<std::pair<double, double>>& means, double prior);

}  // namespace isobar
