// Pipelines: the stages' plans brought together to the terms of one step.
//
//   std::vector<StageProgram> stages = stages_of(spec, {});
//   StepTerms t = count_pipeline(spec, stages, where, cache_share, machine.values());
//
// The slowest stage is busy all the time but while the pipeline fills and drains. Then the others do, one
// after the other, one micro-batch of one chunk each: with equal stages that is the (p - 1) / (m v) of
// Narayanan 2021.
//
// A stage is counted as one of its ranks has it; of a graph that is cut over cp, whose ranks have unequal
// parts, as the slowest has it.
#pragma once
#include <vector>

#include "perfmodel/step/terms.h"

namespace isobar {

struct StageProgram {
  Plan plan;
  Program program;  // of a training step
};

/// One rank of each stage of the pipeline that begins with rank `first`; that rank alone without one.
std::vector<StageProgram> stages_of(const RunSpec& spec, const Workspace& workspace, int first = 0);

/// Terms of the slowest stage at these prices, with what it waits for the others.
StepTerms count_pipeline(const RunSpec& spec, const std::vector<StageProgram>& stages,
                         const Conditions& where, double cache_share, const Counts& coefficients);

}  // namespace isobar
