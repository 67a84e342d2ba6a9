// The plans of a pipeline's stages with their linked steps, for the replay.
//
//   std::vector<StageProgram> stages = stages_of(spec, {});
//   Replay r = simulate(spec, stages, machine.values(), where, cache_share);
#pragma once
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"

namespace isobar::perf {

struct StageProgram {
  plan::Plan plan;
  plan::Program program;  // of a training step
};

/// One rank of each stage of rank `first`'s pipeline, or that rank without one. One rank stands for a stage.
std::vector<StageProgram> stages_of(const RunSpec& spec, const plan::Workspace& workspace, int first = 0);

}  // namespace isobar::perf
