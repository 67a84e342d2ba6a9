// Collectives of the ranks with the same parameters: their time on one pipeline stage, unit by unit as
// model/plan/parameters.h cuts them, and what overlapping passes do not hide.
//
//   UnitTimes u = unit_times(sections, stage.chunks, policy, rates, where);
//   double left = u.exposed(stage.chunks[0], 0, backward_of);    // ZeRO 0, 1: the last micro-batch
//
// A unit is a bucket of whole parts, at ZeRO 3 one part. Parameters that tensor parallelism cuts or leaves
// whole, with or without 16-bit copies, form up to four sections with their own units; adapters may add one,
// and frozen ones have their own, only gathered at ZeRO 3. Units that begin in one run of equal parts are
// equal and need no loop. Divided experts are a section of their own.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "perfmodel/layouts/sections.h"
#include "perfmodel/layouts/stage_kinds.h"

namespace isobar::perf {

/// How units are cut and exchanged.
struct UnitPolicy {
  int zero = 0;
  bool by_reader = false;  // parameters read in f32 have their own units
  double gradient = 4;     // bytes of an element
  double matrix = 4;       // of a parameter that matrix products read
  double bucket = 0;       // elements
  double host = 0;         // seconds a byte to load offloaded shares
  bool halves = false;     // matrix products read 16-bit copies
  // Ranks that share cut parameters, divided experts, adapters' partial ones, and whole ones
  Placement cut, expert, partial, whole;
};

/// Seconds of one stage's collectives.
struct UnitTimes {
  double reduce = 0, units = 0;        // of all gradients, once; number of units
  double gather = 0, last_gather = 0;  // of all parameters, once; of the unit updated last
  double gathers = 0;                  // ZeRO 3: number in a micro-batch, both passes
  double first_share = 0;              // of the parameters: share of the unit updated first

  struct Part {  // ZeRO 3: one part of a kind, which has its own units
    double reduce = 0, gather = 0;
    double gather_again = 0;  // for the backward pass, which does not read all
  };
  std::vector<Part> parts;  // by distinct part

  /// ZeRO 0 to 2: reductions remaining in a chunk's backward when `parts` parts of a run and all earlier runs
  /// are left
  struct Rest {
    int32_t chunk, run;  // index of StageKind::chunks, and of its runs
    double parts, seconds;
  };
  std::vector<Rest> rests;  // by chunk and run

  /// Reductions that the backward pass of chunk `index` does not hide. `pass(run)`: seconds of one part of
  /// it.
  template <class Pass>
  double exposed(const StageChunk& chunk, int32_t index, const Pass& pass) const {
    double most = 0, before = 0;
    auto rest = rests.begin();
    while (rest != rests.end() && rest->chunk < index) ++rest;
    for (int32_t r = 0; r < static_cast<int32_t>(chunk.runs.size()); ++r) {
      const double each = pass(chunk.runs[r]);
      for (; rest != rests.end() && rest->chunk == index && rest->run == r; ++rest)
        most = std::max(most, rest->seconds - before - rest->parts * each);
      before += chunk.runs[r].count * each;
    }
    return most;
  }
};
UnitTimes unit_times(const NetSections& sections, std::span<const StageChunk> chunks,
                     const UnitPolicy& policy, const Counts& rates, const Conditions& where);

// Costs of ZeRO 2 and 3 in every micro-batch of a pipeline stage beyond its compute: gathers and reductions
// that neighbouring parts' passes do not hide.
//
// Only sums and maxima, so costs are monotonic in every price.

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
