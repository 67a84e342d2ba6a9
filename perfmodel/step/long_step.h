// The terms of a step, however many equal parts its net has and micro-batches the step: where they are very
// many, of two shorter steps and what each further round adds.
//
//   const CountedStep s = count_step(spec, workspace, where, cache_share, machine.values());
//   step_seconds(s.terms, machine.values()), s.flops
//
// Rounds are those of folded plans (nets/folded_plan.h), and of micro-batches one for each stage. A third
// step tells whether time grows by the same already; where it does not, the shorter steps are taken longer.
#pragma once
#include "model/nets/plan_size.h"
#include "perfmodel/step/pipeline.h"

namespace isobar {

struct CountedStep {
  StepTerms terms;
  double flops = 0;       // matrix FLOPs of all ranks, recomputation too
  double parameters = 0;  // of the net
};

struct LongStep {  // of more than that a step is long
  int64_t parts = kMostPartsWhole;
  double bytes = 64e6;  // of a rank's linked program
};

/// Throws what build_plan() and link_step() throw.
CountedStep count_step(const RunSpec& spec, const Workspace& workspace, const Conditions& where,
                       double cache_share, const Counts& coefficients, const LongStep& longer = {});

}  // namespace isobar
