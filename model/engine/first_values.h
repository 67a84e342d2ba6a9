// First values of a training: from the seed, from another training's weights (train.init_from), or all of its
// state from the checkpoint that it resumes.
//
//   RunProgress progress = first_values(run, plan, processor);
#pragma once
#include "model/engine/processor.h"
#include "model/engine/run_progress.h"
#include "model/engine/train_context.h"

namespace isobar::engine {

/// Collective. Fills constants, parameters, optimizer state and scalars, and runs the plan's `init`. Records
/// the resume. Returns the progress to go on from.
RunProgress first_values(const TrainContext& run, const plan::Plan& plan, Processor& processor);

}  // namespace isobar::engine
