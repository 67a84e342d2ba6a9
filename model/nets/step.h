// Builds the plan of one rank's step from a net's parts: parameters, the routines of this rank's chunks, and
// the order in which a step invokes them, as it lists them in execution order.
#pragma once
#include "model/base/spec/spec.h"
#include "model/plan/builder.h"

namespace isobar {
/// `input_gradient`: the backward pass continues to the net's input (Plan::input_gradient).
Plan emit_step(const RunSpec& spec, int rank, const Workspace& workspace, bool input_gradient = false);
}  // namespace isobar
