// The observers of a training: what each does, and the one place that orders them.
//
//   add_observers(all, observed, curves(run, data));
//
// A class in its own .cpp each; none but the list's order connects them.
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
/// Follows validations for the learning rate (plateau), the best checkpoint and an early stop. Collective.
std::unique_ptr<RunObserver> early_stopping(const Observed& o);
/// Writes the trace of the last steps. Throws ConfigError if they are not known beforehand.
std::unique_ptr<RunObserver> step_trace(const Observed& o);
/// Statistics of steps and op times without warm-up: fills run_end.
std::unique_ptr<RunObserver> run_summary(const Observed& o);
/// Lines of result.jsonl.
std::unique_ptr<RunObserver> result_writer(const Observed& o);
/// TensorBoard curves. Throws ConfigError if they are wanted and cannot be written.
std::unique_ptr<RunObserver> curves(const TrainContext& run, const RankData& data);
/// Lines on the terminal.
std::unique_ptr<RunObserver> step_table(const Observed& o);
/// Says what slows the steps, once for each cause (model/records/advice.h).
std::unique_ptr<RunObserver> advice_giver(const Observed& o);
/// Validates before the first step, at intervals and at the end: on_valid of `all`. Collective.
std::unique_ptr<RunObserver> validator(const Observed& o, RunObserver& all);
/// Sums up epochs in runs that count them: on_epoch of `all`.
std::unique_ptr<RunObserver> epoch_counter(const Observed& o, RunObserver& all);
/// Saves at intervals, after the best validation, at the end and at a stop: on_checkpoint of `all`.
/// Collective.
std::unique_ptr<RunObserver> checkpointer(const Observed& o, RunObserver& all);
/// Meters each rank's times and energy, and reports them after validations and checkpoints and at the end:
/// on_ranks of `all`. Collective.
std::unique_ptr<RunObserver> rank_reports(const Observed& o, RunObserver& all);

}  // namespace isobar::engine
