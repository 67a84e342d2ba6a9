// What the collectives of ZeRO 2 and 3 cost every micro-batch of a pipeline stage, beyond its compute:
// gathers and reductions hide under the passes of neighbouring parts as far as those take.
//
//   UnitWaits w = waits_of(units, stage, passes, {.zero = 3, .overlap = true, .slowdown = 0.1});
//   w.forward + w.backward           // seconds a micro-batch is longer by
//
// Sums and maxima of seconds only: nothing gets slower because a price falls.
#pragma once
#include "perfmodel/layouts/layout_units.h"

namespace isobar {

/// Seconds of compute of a chunk's parts.
struct UnitPasses {
  double embed_forward = 0, block_forward = 0, head_forward = 0;
  double embed_backward = 0, block_backward = 0, head_backward = 0;
  // Of the backward ones, weight gradients that are put off to a pass of their own: what is reduced hides
  // under these, what is gathered under the others.
  bool split = false;
  double embed_weight = 0, block_weight = 0, head_weight = 0;
  double add = 0;                                // a block's reduced gradients to those that are kept
  double after_forward = 0, after_backward = 0;  // of a block, after it has last read parameters
  bool reads_cut_vectors = true;                 // the backward pass does: biases, if it makes products again
  double group = 1;  // blocks that are recomputed together: their parameters are gathered at once
};

/// What units cost a micro-batch of one stage beyond its compute: ZeRO 2 and 3.
struct UnitWaits {
  double forward = 0, backward = 0;  // seconds that compute waits, is slower, or adds
  double prefetched = 0;             // of them, what an idle stage has done before the micro-batch comes …
  double prefetched_backward = 0;    // … and of that, before its gradient does
  double behind = 0;                 // of them, after the gradient has gone to the stage before
  double weight = 0;                 // of them, in a pass of weight gradients
  double slowdown = 0;               // of them, compute beside collectives
  double added = 0;                  // of them, adding what was reduced to what is kept
  double all() const { return forward + backward; }
};

struct WaitPolicy {
  int zero = 3;         // 2 or 3
  bool overlap = true;  // collectives beside compute; false: gathers before it, reductions after the pass
  double slowdown = 0;  // of compute beside collectives: it takes 1 + slowdown times as long
};
UnitWaits waits_of(const UnitTimes& units, const UnitStage& stage, const UnitPasses& passes,
                   const WaitPolicy& policy);

}  // namespace isobar
