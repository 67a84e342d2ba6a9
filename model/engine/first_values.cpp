#include "model/engine/first_values.h"

#include "model/engine/host/mpi_meeting.h"
#include "model/engine/plan_memory.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/params.h"

namespace isobar::engine {
namespace {

/// Weights of a new training. The moving average starts as the weights.
void begin_anew(const TrainContext& run, const plan::Plan& plan, const PlanMemory& memory) {
  const TrainSpec& train = run.spec.train;
  inference::init_params(plan, static_cast<uint64_t>(train.seed), {memory.params(), memory.halves()});
  if (!train.init_from.empty())
    inference::load_first_weights(train.init_from, plan, memory.params(), memory.halves(),
                                  meeting_of(run.mpi, run.threads, &run.background.slow()));
  float* const average = memory.average();
  if (!average) return;
  for (const plan::Shard& s : plan.shards)
    if (s.moments >= 0) std::copy_n(memory.params() + s.params, s.count, average + s.moments);
}

inference::TrainState from_checkpoint(const TrainContext& run, const plan::Plan& plan,
                                      const PlanMemory& memory) {
  const inference::OpenCheckpoint& opened = *run.resume->opened;
  inference::load_checkpoint(opened, plan, memory.params(), memory.adam_m(), memory.adam_v(), memory.halves(),
                             memory.average());
  inference::TrainState state = opened.state().train;
  state.early.reason.clear();  // belongs to the earlier run
  run.log.write(record_of(*run.resume));
  return state;
}

void set_scalars(const inference::TrainState& state, const TrainSpec& train, float* scalars) {
  scalars[plan::kStep] = static_cast<float>(state.updates);
  scalars[plan::kLossScale] =
      static_cast<float>(state.loss_scale > 0 ? state.loss_scale : train.initial_loss_scale);
  scalars[plan::kGoodSteps] = static_cast<float>(state.good_steps);
  scalars[plan::kUnscale] = 1;
}

}  // namespace

RunProgress first_values(const TrainContext& run, const plan::Plan& plan, Processor& processor) {
  Backend& backend = processor.backend();
  const PlanMemory memory(plan, backend);
  run.starting.stage("constants");
  backend.load_constants();
  run.starting.stage(run.resume ? "loading the checkpoint" : "first values");
  inference::TrainState state;
  if (run.resume)
    state = from_checkpoint(run, plan, memory);
  else
    begin_anew(run, plan, memory);
  set_scalars(state, run.spec.train, memory.scalars());
  run.starting.stage("preparing the first step");
  memory.upload_weights(run.resume != nullptr);
  const plan::Program init = plan::link(plan, plan.init, run.spec.run.serial);
  processor.runner()(init, 0);
  backend.drop_host_copies();
  return {.first = state.step, .step = state.step, .plateau = state.plateau, .early = state.early};
}

}  // namespace isobar::engine
