// Builds the plan of one rank's step from a net's parts: parameters, the routines of this rank's chunks, and
// the order in which a step invokes them, as it lists them in execution order.
#pragma once
#include "model/base/spec/spec.h"
#include "model/plan/builder.h"

namespace isobar::nets {
plan::Plan emit_step(const RunSpec& spec, int rank, const plan::Workspace& workspace,
                     plan::PlanUse use = plan::PlanUse::training);
}  // namespace isobar::nets
