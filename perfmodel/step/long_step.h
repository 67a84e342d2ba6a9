// The terms of a step with very many equal parts or micro-batches: extrapolated from two shorter steps.
//
//   const CountedStep s = count_step(spec, workspace, where, cache_share, machine.values());
//   step_seconds(s.terms, machine.values()), s.flops
//
// Rounds are those of folded plans (nets/folded_plan.h), and for micro-batches one for each stage. A third
// step checks that growth is constant; otherwise longer steps are tried.
#pragma once
#include "model/nets/plan_size.h"
#include "perfmodel/step/pipeline.h"

namespace isobar {

struct CountedStep {
  StepTerms terms;
  double flops = 0;       // matrix FLOPs of all ranks, recomputation included
  double parameters = 0;  // of the net
};

struct LongStep {  // limits above which a step is extrapolated
  int64_t parts = kMostPartsWhole;
  double bytes = 64e6;  // of a rank's linked program
};

/// Throws what build_plan() and link_step() throw.
CountedStep count_step(const RunSpec& spec, const Workspace& workspace, const Conditions& where,
                       double cache_share, const Counts& coefficients, const LongStep& longer = {});

}  // namespace isobar
