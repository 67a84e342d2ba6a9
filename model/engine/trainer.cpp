#include "model/engine/trainer.h"

#include <omp.h>

#include <cmath>
#include <future>
#include <thread>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/signal_name.h"
#include "model/data/statistics/stats.h"
#include "model/engine/executor.h"
#include "model/engine/host/mpi_meeting.h"
#include "model/engine/observers/observers.h"
#include "model/engine/output/run_text.h"
#include "model/engine/plan_memory.h"
#include "model/engine/processor.h"
#include "model/engine/run_progress.h"
#include "model/engine/train_context.h"
#include "model/inference/arena.h"
#include "model/inference/channel_loss.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "model/nets/layout/memory_ladder.h"
#include "model/nets/loss_settings.h"
#include "model/nets/points.h"

namespace isobar::engine {
namespace {

// First values of a training: from the seed, from another training's weights (train.init_from), or all of its
// state from the checkpoint that it resumes.

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

/// Collective. Fills constants, parameters, optimizer state and scalars, and runs the plan's `init`. Records
/// the resume. Returns the progress to go on from.
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

/// Starts OpenMP's threads. libgomp ends the process where it cannot start one; before it, as many threads of
/// the standard library are started at once, and throw std::system_error.
void start_threads(int threads) {
  std::vector<std::jthread> tried;
  std::promise<void> all_started;
  const std::shared_future<void> end = all_started.get_future().share();
  try {
    for (int i = 1; i < threads; ++i) tried.emplace_back([end] { end.wait(); });
  } catch (...) {
    all_started.set_value();
    throw;
  }
  all_started.set_value();
  tried.clear();
  omp_set_num_threads(threads);
#pragma omp parallel
  {}
}

/// Statistics of the training data, computed by one child process for all ranks; empty if there is none.
data::Statistics statistics_of_data(const TrainContext& run) {
  return data::unpacked(run.mpi.from_first(
      data::packed(run.options.statistics ? run.options.statistics() : data::Statistics())));
}

/// Allocates; an out-of-memory error lists changes that would save memory, and how much.
template <class Allocate>
void with_memory_advice(const TrainContext& run, const Allocate& allocate) {
  const auto advised = [&](const inference::OutOfMemory& e) {
    const std::string ladder =
        nets::to_text(nets::memory_ladder(run.spec, workspace_of(run.device, run.spec, run.threads)));
    return e.what() + (ladder.empty() ? "" : "; each by itself, a rank: " + ladder);
  };
  try {
    allocate();
  } catch (const inference::DeviceOutOfMemory& e) {
    throw inference::DeviceOutOfMemory(advised(e));
  } catch (const inference::OutOfMemory& e) {
    throw inference::OutOfMemory(advised(e));
  }
}

/// Throws NumericFailure if the step's numbers end the training.
void require_finite(const records::StepRecord& r, bool overflows_at_least_scale) {
  const std::string step = "step " + std::to_string(r.step);
  if (overflows_at_least_scale)
    throw NumericFailure(step + ": gradients overflow in fp16 at train.min_loss_scale; lower train.lr, use " +
                         "policy.amp bf16, or look at the data");
  if (!std::isfinite(*r.loss) || (!std::isfinite(*r.grad_norm) && !r.skipped.value_or(false)))
    throw NumericFailure(step + ": loss " + std::to_string(*r.loss) + ", gradient norm " +
                         std::to_string(*r.grad_norm) + "; lower train.lr or look at the data");
}

}  // namespace

Trainer::Trainer(const TrainContext& run)
    : run_(run),
      plan_(nets::build_plan(run.spec, run.mpi.rank(), workspace_of(run.device, run.spec, run.threads))),
      programs_(run.spec, plan_),
      weighted_(run.spec) {
  start_threads(run.threads);
  if (!run.device.gpu) own_cores_.emplace(run.mpi, run.threads);
  record_start(run, plan_);  // before anything slow
  open_data();
  // Its folder may not be writable: known before memory is taken.
  std::unique_ptr<RunObserver> drawn = curves(run, *data_);
  print_header(run, plan_, *data_);
  weigh_loss();
  take_memory();
  add_watchers(std::move(drawn));
}

Trainer::~Trainer() {
  run_.background.watchdog().follow(nullptr);
}

records::EndRecord Trainer::run() {
  begin();
  while (!progress_.over(run_.spec)) {
    if (run_.background.watchdog().stops_at(progress_.step)) return stop();
    observers_.on_step_begin(progress_.step, progress_.restarts_statistics(run_.spec));
    StepResult result = execute(progress_.step);
    read_metrics(result);
    ++progress_.step;
    observers_.on_step(result);
  }
  records::EndRecord end;
  observers_.on_end(end);
  return end;
}

void Trainer::begin() {
  progress_ = first_values(run_, plan_, *processor_);
  progress_.steps_per_epoch = data_->steps_per_epoch();
  data_->seek(progress_.step);
  observers_.on_start();
}

StepResult Trainer::execute(int64_t step) {
  Backend& backend = processor_->backend();
  Runner& runner = processor_->runner();
  StepResult r{.record = {.step = step + 1}};
  double waited_s = 0;
  read_samples(step, waited_s);
  set_scalars(r.record);

  r.begin_ns = now_ns();
  backend.upload({plan_.scalars});
  runner(programs_.of(run_.spec.rollout_at(step)), static_cast<int32_t>(step));
  backend.download({plan_.metrics, plan_.grad_norm2, plan_.scalars});
  if (replay_) {
    backend.download({plan_.replayed});
    replay_->take(step, PlanMemory(plan_, backend).floats(plan_.replayed));
  }
  r.end_ns = now_ns();

  r.record.seconds = static_cast<double>(r.end_ns - r.begin_ns) * 1e-9;
  r.record.data_wait_s = waited_s;
  r.ops_timed = runner.times_ops() || processor_->watches();
  if (step == progress_.first) processor_->first_step_done();
  return r;
}

// Samples are read when the program fetches them: those of the next step already while this one computes,
// unless a replay buffer gives it this step's predictions.
void Trainer::read_samples(int64_t step, double& waited_s) {
  const TrainSpec& train = run_.spec.train;
  processor_->backend().on_fetch(
      [this, step, &waited_s](int32_t, const BatchPlaces& to) {
        const auto reading = run_.background.slow().begin("reading samples");
        const double waited = data_->next(to).wait_s;
        if (!processor_->backend().fetch_is_hidden()) waited_s += waited;
        if (replay_) replay_->fill(step, to.floats("input"));
      },
      step + 1 < train.steps && train.replay_capacity == 0);
}

void Trainer::set_scalars(records::StepRecord& record) {
  record.lr = inference::learning_rate(run_.spec.train, record.step - 1, progress_.plateau);
  float* const scalars = PlanMemory(plan_, processor_->backend()).scalars();
  scalars[plan::kLearningRate] = static_cast<float>(*record.lr);
  scalars[plan::kTraining] = 1;
  scalars[plan::kPadding] = 0;
  if (scales_loss(run_.spec))
    record.loss_scale = scalars[plan::kLossScale];
  else
    scalars[plan::kStep] = static_cast<float>(record.step);
}

void Trainer::read_metrics(StepResult& result) const {
  const TrainSpec& train = run_.spec.train;
  const PlanMemory memory(plan_, processor_->backend());
  const float* const metrics = memory.floats(plan_.metrics);
  records::StepRecord& r = result.record;
  r.loss = metrics[0];
  if (of_words(plan_)) {
    result.error = std::exp(*r.loss);
  } else {
    result.error = metrics[errors_of(plan_).first];
    (of_fields(plan_) ? r.rmse : of_classes(plan_) ? r.accuracy : r.mae) = result.error;
  }
  if (of_experts(plan_)) {
    r.imbalance = metrics[plan_.metrics_named[1].first];
    if (run_.spec.net.llama().experts.expert_capacity_factor > 0)
      r.dropped = metrics[plan_.metrics_named[3].first];
  }
  r.grad_norm = std::sqrt(static_cast<double>(*memory.floats(plan_.grad_norm2)));
  r.samples_per_s = static_cast<double>(train.global_batch) / r.seconds;
  r.epoch = (r.step - 1) / data_->steps_per_epoch();
  if (r.loss_scale) r.skipped = memory.scalars()[plan::kUnscale] == 0;
  const auto least = static_cast<float>(train.min_loss_scale);
  require_finite(r, r.skipped.value_or(false) && static_cast<float>(*r.loss_scale) <= least);
}

records::EndRecord Trainer::stop() {
  observers_.on_stop();
  const int signal = run_.background.watchdog().stop_signal();
  const int64_t every = run_.spec.train.checkpoint_every;
  std::string message = "stopped by " + signal_name(signal) + " after step " + std::to_string(progress_.step);
  if (every == 0)
    message += "; without a checkpoint, as train.checkpoint_every is 0";
  else if (!run_.spec.run.out.empty() && progress_.step > progress_.first)
    message += "; go on with --resume " + run_.spec.run.out;
  return interrupted(signal, message);
}

void Trainer::open_data() {
  run_.starting.stage("statistics of the data");
  const data::Statistics known = statistics_of_data(run_);
  run_.starting.stage("opening the data");
  data_.emplace(run_.spec, plan_, run_.mpi.rank(), known.mean.empty() ? nullptr : &known);
  if (!run_.resume) return;
  const std::string remark = data_->compare_with(run_.resume->state.channels, run_.resume->from.string());
  if (!remark.empty()) run_.say(remark);
}

void Trainer::weigh_loss() {
  weighted_.train = inference::with_channel_loss(run_.spec, data_->net_channels().targets);
  weighted_.train.latitudes = nets::loss_latitudes(run_.spec, data_->latitudes());
  nets::know_loss_weights(plan_, weighted_.train);
  print_loss_weights(run_, weighted_.train, *data_);
}

void Trainer::take_memory() {
  run_.starting.stage("memory and libraries");
  with_memory_advice(run_, [&] {
    processor_ =
        make_processor(run_.device, weighted_, plan_, run_.mpi, run_.threads, !run_.options.trace.empty());
    if (plan_.memory.replay > 0) replay_.emplace(run_.spec, plan_, data_->replay_schedule());
  });
  programs_.keep(processor_->runner());
}

void Trainer::add_watchers(std::unique_ptr<RunObserver> curves) {
  add_observers(observers_, {run_, weighted_, plan_, programs_, *data_, *processor_, progress_},
                std::move(curves));
  if (const auto about = processor_->describe(); !about.is_null())
    run_.log.write(records::DeviceRecord{about});
  for (const std::string& line : processor_->remarks()) run_.say(line);
  run_.background.watchdog().follow(&processor_->runner());
}

}  // namespace isobar::engine
