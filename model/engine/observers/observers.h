// The observers of a training: what each does, and the one place that orders them.
//
//   add_observers(all, observed, curves(run, data));
//
// The small ones are in observers.cpp, the others in a file each; none but the list's order connects them.
#pragma once
#include <memory>

#include "model/engine/observers/run_observer.h"
#include "model/engine/rank_data.h"
#include "model/engine/run_progress.h"
#include "model/engine/step_programs.h"
#include "model/engine/train_context.h"

namespace isobar::engine {

/// The parts of a training that observers see; all of it outlives them.
struct Observed {
  const TrainContext& run;
  const RunSpec& weighted;  // the run's spec with the loss weights and latitudes of its data
  const plan::Plan& plan;
  const StepPrograms& programs;
  RankData& data;
  Processor& processor;
  RunProgress& progress;
};

/// Adds all observers in their order, which decides what is on disk when a run is killed:
///
/// - a step's line is written before its validation, that one's before the epoch's and the checkpoint, that
///   one's before the ranks': a kill in between loses only what follows;
/// - early stopping sees a validation before it is recorded: a checkpoint after it holds that state;
/// - at the end the trace comes first, because device times that it has replace the op times of run_end; the
///   summary is printed once run_end is on disk.
/// `curves`: made before the others, while nothing slow has begun.
void add_observers(RunObservers& all, const Observed& o, std::unique_ptr<RunObserver> curves);

/// Prints what took longest before the first step.
std::unique_ptr<RunObserver> start_times(const Observed& o);
/// Writes the trace of the last steps. Throws ConfigError if they are not known beforehand.
std::unique_ptr<RunObserver> step_trace(const Observed& o);
/// TensorBoard curves. Throws ConfigError if they are wanted and cannot be written.
std::unique_ptr<RunObserver> curves(const TrainContext& run, const RankData& data);
/// Lines on the terminal.
std::unique_ptr<RunObserver> step_table(const Observed& o);
/// Saves at intervals, after the best validation, at the end and at a stop: on_checkpoint of `all`.
/// Collective.
std::unique_ptr<RunObserver> checkpointer(const Observed& o, RunObserver& all);

}  // namespace isobar::engine
