// What the collectives of ZeRO 2 and 3 cost every micro-batch of a pipeline stage, beyond its compute:
// gathers and reductions hide under the passes of neighbouring parts as far as those take.
//
//   UnitWaits w = waits_of(units, stage, times, {.zero = 3, .overlap = true, .slowdown = 0.1});
//   w.forward + w.backward           // seconds a micro-batch is longer by
//
// Sums and maxima of seconds only: nothing gets slower because a price falls.
#pragma once
#include <span>

#include "perfmodel/layouts/layout_units.h"

namespace isobar {

/// What units cost a micro-batch of one stage beyond its compute: ZeRO 2 and 3.
struct UnitWaits {
  double forward = 0, backward = 0;  // seconds that compute waits, is slower, or adds
  double prefetched = 0;             // of them, what an idle stage has done before the micro-batch comes …
  double prefetched_backward = 0;    // … and of that, before its gradient does
  double behind = 0;                 // of them, after the gradient has gone to the stage before
  double slowdown = 0;               // of them, compute beside collectives
  double added = 0;                  // of them, adding what was reduced to what is kept
  double all() const { return forward + backward; }
};

struct WaitPolicy {
  int zero = 3;          // 2 or 3
  bool overlap = true;   // collectives beside compute; false: gathers before it, reductions after the pass
  double slowdown = 0;   // of compute beside collectives: it takes 1 + slowdown times as long
  double added = 0;      // seconds of adding a stage's reduced gradients to those that are kept
  bool grouped = false;  // parts are recomputed in groups, whose parameters are gathered at once
};
/// `times`: of each distinct part.
UnitWaits waits_of(const UnitTimes& units, const StageKind& stage, std::span<const PartTime> times,
                   const WaitPolicy& policy);

}  // namespace isobar
