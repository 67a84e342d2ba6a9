// Costs of ZeRO 2 and 3 in every micro-batch of a pipeline stage beyond its compute: gathers and reductions
// that neighbouring parts' passes do not hide.
//
//   UnitWaits w = waits_of(units, stage, times, {.zero = 3, .overlap = true, .slowdown = 0.1});
//   w.forward + w.backward           // seconds added to a micro-batch
//
// Only sums and maxima, so costs are monotonic in every price.
#pragma once
#include <span>

#include "perfmodel/layouts/layout_units.h"

namespace isobar::perf {

/// Costs of units in a micro-batch of one stage beyond its compute: ZeRO 2 and 3.
struct UnitWaits {
  double forward = 0, backward = 0;  // seconds of waits, slowdown and additions
  double prefetched = 0;             // of them, done by an idle stage before the micro-batch arrives …
  double prefetched_backward = 0;    // … and of that, before its gradient arrives
  double behind = 0;                 // of them, after the gradient has been sent
  double slowdown = 0;               // of them, slowdown of compute beside collectives
  double added = 0;                  // of them, adding reduced gradients to the kept ones
  double all() const { return forward + backward; }
};

struct WaitPolicy {
  int zero = 3;          // 2 or 3
  bool overlap = true;   // collectives beside compute; false: gathers before it, reductions after the pass
  double slowdown = 0;   // compute beside collectives takes 1 + slowdown times as long
  double added = 0;      // seconds of adding a stage's reduced gradients
  bool grouped = false;  // parts are recomputed in groups, gathered at once
};
/// `times`: by distinct part.
UnitWaits waits_of(const UnitTimes& units, const StageKind& stage, std::span<const PartTime> times,
                   const WaitPolicy& policy);

}  // namespace isobar::perf
