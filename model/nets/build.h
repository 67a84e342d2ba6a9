// From a specification to the placed plan of one rank.
#pragma once
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"

namespace isobar::nets {

/// Pure. Throws ConfigError for a layout or policy that the net cannot take, with the nearest that it can.
/// PlanUse::input_gradient: for one micro-batch on one rank.
plan::Plan build_plan(const ValidSpec& valid, int rank, const plan::Workspace& workspace,
                      plan::PlanUse use = plan::PlanUse::training);

/// The linked program of a step with all its micro-batches. Unlike the plan it grows with micro-batches:
/// throws ConfigError if `ranks` such programs exceed memory.
plan::Program link_step(const RunSpec& spec, const plan::Plan& plan, int64_t ranks = 1);

struct StageProgram {
  plan::Plan plan;
  plan::Program program;  // of a training step
};
/// One rank of each stage of rank `first`'s pipeline, or that rank without one. One rank stands for a stage.
std::vector<StageProgram> stages_of(const RunSpec& spec, const plan::Workspace& workspace, int first = 0);

/// Checks the plans of all ranks against each other (check in plan/link.h); of a world too large for memory,
/// a part (world_to_check in plan_size.h). Throws ConfigError naming the layout if they do not fit together.
void check_world(const RunSpec& spec, const plan::Workspace& workspace);
void check_world(const RunSpec& spec, const std::vector<plan::Plan>& plans);

/// Throws ConfigError for ops and types that no backend has a kernel for: such a plan can be predicted, not
/// run.
void require_kernels(const RunSpec& spec, const plan::Plan& plan);
/// The run with one sample on one rank, without recomputation.
RunSpec sample_of(RunSpec spec);

/// Matrix FLOPs of one sample's forward pass through the whole net, for any layout: counted from the plan of
/// one rank, without recomputation.
double forward_flops_per_sample(const RunSpec& spec);
/// Model FLOPs of an optimizer step of all ranks, independent of layout and recomputation: the products of
/// the forward pass, and twice as many of the backward pass (Narayanan 2021, SC21, section 5.1).
double model_flops(const RunSpec& spec);

}  // namespace isobar::nets
