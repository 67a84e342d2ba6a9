// Pipelines: combines the stages' plans into the terms of one step.
//
//   std::vector<StageProgram> stages = stages_of(spec, {});
//   StepTerms t = count_pipeline(spec, stages, where, cache_share, machine.values());
//
// The slowest stage is busy except while the pipeline fills and drains. Then the others work in turn, one
// micro-batch of one chunk each: with equal stages that is the (p - 1) / (m v) of Narayanan 2021.
//
// One rank stands for a stage; if a graph is cut over cp into unequal parts, the slowest one.
#pragma once
#include <vector>

#include "perfmodel/step/terms.h"

namespace isobar {

struct StageProgram {
  Plan plan;
  Program program;  // of a training step
};

/// One rank of each stage of rank `first`'s pipeline, or that rank without one.
std::vector<StageProgram> stages_of(const RunSpec& spec, const Workspace& workspace, int first = 0);

/// Terms of the slowest stage at these prices, with its waits for the others.
StepTerms count_pipeline(const RunSpec& spec, const std::vector<StageProgram>& stages,
                         const Conditions& where, double cache_share, const Counts& coefficients);

}  // namespace isobar
