// The plan of a very deep net of equal parts, of bounded size: that of the same net with just enough parts
// for steady growth, and what each further round adds.
//
//   const FoldedPlan f = fold_plan(spec, rank, workspace);
//   f.plan, f.to_check                        // to print, and to check against other ranks' plans
//   f.memory, f.totals, f.parameters      // of the whole net; memory to the byte
//
// A net that is not deep is planned whole: `rounds` is 0. Executing a plan or replaying its ops needs it
// whole (build_plan).
#pragma once
#include "model/base/spec.h"
#include "model/nets/plan_size.h"
#include "model/plan/plan.h"
#include "model/plan/work.h"

namespace isobar {

struct FoldedPlan {
  RunSpec spec;              // of `plan`
  RunSpec to_check;          // for all ranks, with few parts each: small enough for check_world()
  Plan plan;                 // this rank's
  int64_t round = 0;         // neighbouring parts of a chunk that repeat …
  int64_t rounds = 0;        // … and how many times more than in `plan`
  Memory memory;             // of this rank
  Totals totals;             // of this rank
  int64_t parameters = 0;    // of the net
  double forward_flops = 0;  // matrix FLOPs of one sample through the net
};

/// True if a chunk has more equal, indistinguishable parts than are planned one by one.
bool is_deep(const RunSpec& spec, int64_t most_whole = kMostPartsWhole);

/// Throws what build_plan() throws. If growth is not constant, or names in train.* may distinguish equal
/// parts, the plan is whole, up to build_plan()'s limit.
FoldedPlan fold_plan(const RunSpec& spec, int rank, const Workspace& workspace,
                     int64_t most_whole = kMostPartsWhole);

}  // namespace isobar
