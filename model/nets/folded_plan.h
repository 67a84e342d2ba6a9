// The plan of a net of very many equal parts, which does not grow with them: that of the same net with as few
// of them as bring every stage into its rhythm, and what each further round of the rhythm adds.
//
//   const FoldedPlan f = fold_plan(spec, rank, workspace);
//   f.plan, f.to_check                        // to print, and to check against other ranks' plans
//   f.memory, f.totals, f.parameters      // of the whole net; memory to the byte
//
// A net that is not deep is planned as it is: `rounds` is 0. What executes a plan, or replays its ops one by
// one, needs it whole (build_plan).
#pragma once
#include "model/base/spec.h"
#include "model/nets/plan_size.h"
#include "model/plan/plan.h"
#include "model/plan/work.h"

namespace isobar {

struct FoldedPlan {
  RunSpec spec;              // that `plan` is of
  RunSpec to_check;          // of all ranks, with a few parts each: what check_world() can hold at once
  Plan plan;                 // this rank's
  int64_t round = 0;         // so many neighbouring parts of a chunk repeat, …
  int64_t rounds = 0;        // … so many times more than in `plan`
  Memory memory;             // of this rank
  Totals totals;             // of this rank
  int64_t parameters = 0;    // of the net
  double forward_flops = 0;  // matrix FLOPs of one sample through the net
};

/// Whether a chunk has more equal parts than are planned one by one, and nothing tells them apart.
bool is_deep(const RunSpec& spec, int64_t most_whole = kMostPartsWhole);

/// Throws what build_plan() throws. Where plans of more rounds do not grow by the same each time, or names in
/// train.* may tell equal parts apart, the plan is whole, and as large as build_plan() lets it be.
FoldedPlan fold_plan(const RunSpec& spec, int rank, const Workspace& workspace,
                     int64_t most_whole = kMostPartsWhole);

}  // namespace isobar
