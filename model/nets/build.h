// From what the user asked for to the placed plan of one rank.
#pragma once
#include "model/base/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"

namespace isobar {

/// Pure. Throws ConfigError for a layout or policy that the net cannot take, with the nearest that it can.
/// `input_gradient`: the backward pass goes on to Plan::input_gradient, of one micro-batch on one rank.
Plan build_plan(const RunSpec& spec, int rank, const Workspace& workspace, bool input_gradient = false);

/// A step of a plan, with all its micro-batches, as it is executed or replayed. A plan does not grow with
/// micro-batches, this does: throws ConfigError where `ranks` programs like it are too large for memory.
Program link_step(const RunSpec& spec, const Plan& plan, int64_t ranks = 1);

/// What no rank can see by itself (check in plan/link.h): a plan of every rank, each against the others.
/// Throws ConfigError naming the layout when they do not fit together. Of a world too large to be held in
/// memory at once it looks at a part (world_to_check in plan_size.h).
void check_world(const RunSpec& spec, const Workspace& workspace);
void check_world(const RunSpec& spec, const std::vector<Plan>& plans);

/// Throws ConfigError naming the ops that no backend has a kernel for: such a plan can be predicted, not run.
void require_kernels(const RunSpec& spec, const Plan& plan);

/// Matrix FLOPs of one sample's forward pass through the whole net, whatever the layout: counted from the
/// plan of one rank, without recomputation.
double forward_flops_per_sample(const RunSpec& spec);

}  // namespace isobar
