// The plan of one rank's step, from the parts of a net: parameters, the routines of this rank's chunks, and
// the order in which a step invokes them. What is emitted is listed there, in execution order.
#pragma once
#include "model/base/spec.h"
#include "model/plan/builder.h"

namespace isobar {
/// `input_gradient`: the backward pass goes on to what the net reads (Plan::input_gradient).
Plan emit_step(const RunSpec& spec, int rank, const Workspace& workspace, bool input_gradient = false);
}  // namespace isobar
