// Prices of counts under the conditions of a rank: coefficients times the effects of sharing the host. Closed
// form and replay use the same.
//
//   const Counts price = rates(machine.values(), where);
//   double s = seconds(count_op(op, plan, cache_share, where), price);
//
// Sharing: t threads of one rank take (1 + serial (t - 1)) / t of one thread's time; with A busy cores on a
// host of C everything slows by 1 + share (A - 1) / (C - 1); more threads than cores take turns. Without a
// spare core, intra-host transfers block compute; network transfers do not.
#pragma once
#include "perfmodel/step/conditions.h"

namespace isobar::perf {

/// Seconds per unit of each coefficient under these conditions.
Counts rates(const Counts& coefficients, const Conditions& where);
double seconds(const Counts& counts, const Counts& rates);

}  // namespace isobar::perf
