#include "model/engine/trainer.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"
#include "model/base/signal_name.h"
#include "model/data/stats.h"
#include "model/engine/curves.h"
#include "model/engine/executor.h"
#include "model/engine/host.h"
#include "model/engine/mpi_meeting.h"
#include "model/engine/own_cores.h"
#include "model/engine/processor.h"
#include "model/engine/rank_data.h"
#include "model/engine/rank_metrics.h"
#include "model/engine/replay_buffer.h"
#include "model/engine/result_log.h"
#include "model/engine/run_end.h"
#include "model/engine/run_text.h"
#include "model/engine/signals.h"
#include "model/engine/slow_work.h"
#include "model/engine/start.h"
#include "model/engine/starting.h"
#include "model/engine/summary.h"
#include "model/engine/traced_steps.h"
#include "model/engine/validation.h"
#include "model/inference/arena.h"
#include "model/inference/channel_loss.h"
#include "model/inference/checkpoint.h"
#include "model/inference/params.h"
#include "model/inference/schedule_lr.h"
#include "model/nets/build.h"
#include "model/nets/memory_ladder.h"
#include "model/nets/points.h"

namespace isobar {
namespace {

constexpr int64_t kWarmup = 2;  // first steps, excluded from step statistics and op times

class Trainer {  // NOLINT(clang-analyzer-optin.performance.Padding): one a process; fields in order of use
 public:
  /// `resume`: complete on rank 0, elsewhere only the checkpoint's path; null: start anew. `micro_batch`: how
  /// it was chosen, "" if given.
  Trainer(const RunSpec& spec, const TrainOptions& options, const Resume* resume, ComputeDevice device,
          std::string micro_batch, const Mpi& mpi, ResultLog& log, SlowWork& slow, Watchdog& watch,
          Starting& starting)
      : slow_(slow),
        watch_(watch),
        starting_(starting),
        spec_(spec),
        options_(options),
        resume_(resume),
        mpi_(mpi),
        log_(log),
        threads_(threads_per_rank(spec, mpi)),
        device_(std::move(device)),
        micro_batch_(std::move(micro_batch)),
        plan_(build_plan(spec, mpi.rank(), workspace_of(device_, spec, threads_))),
        train_program_(link_step(spec, plan_)) {
    omp_set_num_threads(threads_);
    if (!device_.gpu) own_cores_.emplace(mpi, threads_);
    log_start();  // before anything slow
    starting_.stage("statistics of the data");
    const Statistics known = statistics();
    starting_.stage("opening the data");
    data_.emplace(spec, plan_, mpi.rank(), known.mean.empty() ? nullptr : &known);
    if (spec.run.tensorboard && log_.on()) curves_ = Curves(spec.run.out);
    curves_.name(data_->channels().targets);
    say_header();
    weighted_.train = with_channel_loss(spec, data_->net_channels().targets);
    weighted_.train.latitudes = loss_latitudes(spec, data_->latitudes());
    say_weights();
    starting_.stage("memory and libraries");
    with_memory_advice([&] {
      processor_ = make_processor(device_, weighted_, plan_, mpi, threads_, !options.trace.empty());
      if (plan_.memory.replay > 0) replay_.emplace(spec, plan_, data_->replay_schedule());
    });
    metrics_.emplace(plan_, *processor_, mpi, device_.gpu);
    backend_ = &processor_->backend();
    executor_ = &processor_->runner();
    executor_->keep(train_program_, true);
    for (const std::vector<Invocation>& shorter : plan_.shorter)
      shorter_.push_back(link(plan_, shorter, spec.run.serial));
    for (const Program& shorter : shorter_) executor_->keep(shorter, true);
    validation_.emplace(weighted_, plan_, *data_, *processor_, mpi, threads_, slow);
    if (const auto about = processor_->describe(); !about.is_null()) log_.write(DeviceRecord{about});
    for (const std::string& line : processor_->remarks()) say(line);
    watch_.follow(executor_);
  }
  ~Trainer() { watch_.follow(nullptr); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  EndRecord run() {
    if (!options_.trace.empty() && may_stop_early(spec_.train))
      throw ConfigError(spec_.file, "train",
                        "may end this run early, and a trace is of its last steps, which are not known then",
                        "trace a run without train.early_stopping_patience and train.jacobian_window");
    const int64_t first = initialise();
    if (const std::string text = starting_.done(); !text.empty()) say(text);
    if (spec_.train.valid_every > 0 && data_->has_validation() && first == 0) validate(0);
    if (!options_.trace.empty()) trace_.emplace(plan_, train_program_, spec_.train.steps, mpi_, *processor_);
    started_ = now_ns();
    int64_t done = first;
    while (done < spec_.train.steps && early_.reason.empty()) {
      if (watch_.stops_at(done)) stop(done, first);
      train_step(done, first);
      if (done == first) processor_->first_step_done();
      ++done;
      const int64_t valid = spec_.train.valid_every, save = spec_.train.checkpoint_every;
      bool best = false;
      if (data_->has_validation() && (done == spec_.train.steps || (valid > 0 && done % valid == 0)))
        best = validate(done);
      const bool last = done == spec_.train.steps || !early_.reason.empty();
      best &= spec_.train.checkpoint_best;
      const bool saves = best || (save > 0 && (last || done % save == 0));
      if (saves) checkpoint(done, best);
      if (done - first > kWarmup && (last || saves || (valid > 0 && done % valid == 0))) tell_ranks(done);
    }
    if (!early_.reason.empty()) say("stopped after step " + std::to_string(done) + ": " + early_.reason);
    if (trace_) {
      const auto writing = slow_.begin("writing the trace");
      say(trace_->write(options_.trace, log_));
    }
    if (const auto about = processor_->describe(); !about.is_null())  // again, with memory allocated since
      log_.write(DeviceRecord{about});
    EndRecord end = summary_of_run(spec_, plan_, executor_->op_times(), executor_->routine_times(),
                                   step_seconds_, timed_seconds_);
    end.steps = done;
    end.trained_steps = done - first;
    if (!early_.reason.empty()) end.stopped = early_.reason;
    end.seconds = static_cast<double>(now_ns() - started_) * 1e-9;
    end.final_loss = final_loss_;
    end.valid = validation_->last();
    if (!last_checkpoint_.empty()) end.checkpoint = last_checkpoint_;
    log_.write(end);
    say("\n" + summary_text(spec_, end));
    return end;
  }

 private:
  // Host copy of a plan's buffer: valid after download(), written back by upload().
  float* on_host(const View& v) { return v ? reinterpret_cast<float*>(backend_->host(v)) : nullptr; }
  bool some_halves() const {
    return std::any_of(plan_.params.begin(), plan_.params.end(), [](const Param& p) { return p.half; });
  }
  void say(const std::string& line) const {
    if (options_.quiet || (mpi_.rank() != 0 && !options_.every_rank)) return;
    const auto printing = slow_.begin("printing");  // a pipe may be full
    std::printf("%s\n", line.c_str());
  }

  // An out-of-memory error lists changes that would save memory, and how much.
  template <class Allocate>
  void with_memory_advice(const Allocate& allocate) const {
    const auto advised = [&](const OutOfMemory& e) {
      const std::string ladder = to_text(memory_ladder(spec_, workspace_of(device_, spec_, threads_)));
      return e.what() + (ladder.empty() ? "" : "; each by itself, a rank: " + ladder);
    };
    try {
      allocate();
    } catch (const DeviceOutOfMemory& e) {
      throw DeviceOutOfMemory(advised(e));
    } catch (const OutOfMemory& e) {
      throw OutOfMemory(advised(e));
    }
  }

  void say_weights() const {
    const TrainSpec& t = weighted_.train;
    if (!weighs_channels(t) && t.intensity.empty()) return;
    const std::vector<ChannelPlace> places = places_of(spec_, data_->net_channels().targets);
    std::string text;
    char one[96];
    for (size_t c = 0; c < places.size(); ++c) {
      std::snprintf(one, sizeof one, "%s%s %.3g", c > 0 ? ", " : "", places[c].name.c_str(),
                    t.loss_weights.empty() ? 1.0 : t.loss_weights[c]);
      text += one;
      if (t.intense_weights.empty() || t.intense_weights[c] == 1) continue;
      std::snprintf(one, sizeof one, " (x %.3g above %.3g normalised)", t.intense_weights[c],
                    t.intense_above[c]);
      text += one;
    }
    say("loss weights " + text);
  }

  void log_start() {
    if (!log_.on()) return;
    StartRecord start =
        start_of_run(spec_, plan_, mpi_.size(), mpi_.ranks_on_host(), threads_, resume_ != nullptr);
    if (!device_.gpu) start.kernels = cpu_kernels(plan_);
    if (!options_.about.empty()) start.provenance["about"] = options_.about;
    log_.write(std::move(start));
    write_atomically(std::filesystem::path(spec_.run.out) / "spec.json", json_text(to_json(spec_), 1) + "\n");
  }

  /// Statistics of the training data, computed by one child process for all ranks; empty if there is none.
  Statistics statistics() const {
    return unpacked(mpi_.from_first(packed(options_.statistics ? options_.statistics() : Statistics())));
  }

  void say_header() {
    RunFacts f{.parameters = plan_.parameter_count(),
               .trained = plan_.trained_count(),
               .ranks = mpi_.size(),
               .threads = threads_};
    f.memory_bytes = static_cast<int64_t>(mpi_.max_of(static_cast<double>(plan_.memory.total())));
    f.ranks_on_host = mpi_.ranks_on_host();
    f.steps_per_epoch = data_->steps_per_epoch();
    f.left_out = data_->left_out();
    f.flat_channels = data_->flat_channels();
    f.validates = data_->has_validation();
    f.first_step = resume_ ? resume_->state.train.step : 0;
    f.micro_batch = micro_batch_;
    f.device = device_.gpu ? device_.name : cpu_name();
    if (options_.every_rank) say(place_text(spec_.layout, mpi_.rank(), mpi_.size()));
    say(header_text(spec_, f));
    if (resume_) say(text_of(*resume_) + "\n");
    if (resume_ && spec_.train.replay_capacity > 0)
      say("the replay buffer's predictions are not in checkpoints: the data's states stand in for them\n");
  }

  /// Initial values or a checkpoint. Returns the step to continue from.
  int64_t initialise() {
    starting_.stage("constants");
    backend_->load_constants();
    starting_.stage(resume_ ? "loading the checkpoint" : "first values");
    float* params = on_host(plan_.params_all);
    std::byte* const halves = some_halves() ? backend_->host(plan_.params16_all) : nullptr;
    const Meeting all = meeting_of(mpi_, threads_, &slow_);
    TrainState state;
    if (!resume_) {
      init_params(plan_, static_cast<uint64_t>(spec_.train.seed), {params, halves});
      if (const std::string& from = spec_.train.init_from; !from.empty())
        load_first_weights(from, plan_, params, halves, all);
    } else {
      load_checkpoint(*resume_->opened, plan_, params, on_host(plan_.adam_m), on_host(plan_.adam_v), halves,
                      on_host(plan_.ema_all));
      state = resume_->opened->state().train;
      plateau_ = state.plateau;
      early_ = state.early;
      early_.reason.clear();  // belongs to the earlier run
      log_.write(record_of(*resume_));
    }
    if (float* const average = on_host(plan_.ema_all); average && !resume_)  // average of one value so far
      for (const Shard& s : plan_.shards)
        if (s.moments >= 0) std::copy_n(params + s.params, s.count, average + s.moments);
    float* scalars = on_host(plan_.scalars);
    scalars[kStep] = static_cast<float>(state.updates);
    scalars[kLossScale] =
        static_cast<float>(state.loss_scale > 0 ? state.loss_scale : spec_.train.initial_loss_scale);
    scalars[kGoodSteps] = static_cast<float>(state.good_steps);
    scalars[kUnscale] = 1;
    starting_.stage("preparing the first step");
    backend_->upload({plan_.params_all, plan_.scalars});
    if (halves) backend_->upload({plan_.params16_all});
    if (plan_.ema_all) backend_->upload({plan_.ema_all});
    if (resume_) backend_->upload({plan_.adam_m, plan_.adam_v});
    const Program init = link(plan_, plan_.init, spec_.run.serial);
    (*executor_)(init, 0);
    backend_->drop_host_copies();
    data_->seek(state.step);
    return state.step;
  }

  void train_step(int64_t step, int64_t first) {
    // Steps with a different roll-out length must not be averaged together.
    const bool longer = step > 0 && spec_.rollout_at(step) != spec_.rollout_at(step - 1);
    if (step == first + kWarmup || step == first || longer) {
      executor_->reset_op_times();
      metrics_->reset();
      step_seconds_.clear();
      timed_seconds_ = 0;
    }
    if (trace_) trace_->begin(step);
    double wait = 0;
    backend_->on_fetch(
        [&](int32_t, const BatchPlaces& to) {
          const auto reading = slow_.begin("reading samples");
          const double waited = data_->next(to).wait_s;
          if (!backend_->fetch_is_hidden()) wait += waited;
          if (replay_) replay_->fill(step, to.floats("input"));
        },
        step + 1 < spec_.train.steps &&
            spec_.train.replay_capacity == 0);  // else it may read this prediction
    metrics_->begin_step();
    const double lr = learning_rate(spec_.train, step, plateau_);
    float* scalars = on_host(plan_.scalars);
    scalars[kLearningRate] = static_cast<float>(lr);
    scalars[kTraining] = 1;
    scalars[kPadding] = 0;
    if (!scaled_) scalars[kStep] = static_cast<float>(step + 1);
    const float scale = scalars[kLossScale];

    const int64_t t0 = now_ns();
    backend_->upload({plan_.scalars});
    const auto length = static_cast<size_t>(spec_.rollout_at(step));
    (*executor_)(length <= shorter_.size() ? shorter_[length - 1] : train_program_,
                 static_cast<int32_t>(step));
    backend_->download({plan_.metrics, plan_.grad_norm2, plan_.scalars});
    if (replay_) {
      backend_->download({plan_.replayed});
      replay_->take(step, on_host(plan_.replayed));
    }
    const int64_t t1 = now_ns();
    if (trace_) trace_->end(step, t0, t1);
    const double seconds = static_cast<double>(t1 - t0) * 1e-9;
    step_seconds_.push_back(seconds);
    metrics_->add(seconds, wait);
    if (executor_->times_ops() || (trace_ && trace_->watched())) timed_seconds_ += seconds;

    const float* metrics = on_host(plan_.metrics);
    const double loss = metrics[0],
                 error = of_words(plan_) ? std::exp(loss) : metrics[errors_of(plan_).first];
    const double norm = std::sqrt(static_cast<double>(*on_host(plan_.grad_norm2)));
    const bool skipped = scaled_ && scalars[kUnscale] == 0;
    if (skipped && scale <= static_cast<float>(spec_.train.min_loss_scale))
      throw NumericFailure("step " + std::to_string(step + 1) +
                           ": gradients overflow in fp16 at train.min_loss_scale; lower train.lr, use " +
                           "policy.amp bf16, or look at the data");
    if (!std::isfinite(loss) || (!std::isfinite(norm) && !skipped))
      throw NumericFailure("step " + std::to_string(step + 1) + ": loss " + std::to_string(loss) +
                           ", gradient norm " + std::to_string(norm) +
                           "; lower train.lr or look at the data");
    final_loss_ = loss;
    const double rate = static_cast<double>(spec_.train.global_batch) / seconds;
    if (log_.on()) {
      StepRecord record{.step = step + 1,
                        .seconds = seconds,
                        .samples_per_s = rate,
                        .epoch = step / data_->steps_per_epoch(),
                        .loss = loss,
                        .lr = lr,
                        .grad_norm = norm,  // null if it overflowed
                        .data_wait_s = wait,
                        .rss_bytes = resident_bytes()};
      if (!of_words(plan_))
        (of_fields(plan_) ? record.rmse : of_classes(plan_) ? record.accuracy : record.mae) = error;
      if (scaled_) record.loss_scale = scale, record.skipped = skipped;
      log_.write_step(record);
      curves_.add(record);
    }
    if ((step + 1) % spec_.train.log_every == 0 || step + 1 == spec_.train.steps) {
      const double spent = static_cast<double>(t1 - started_) * 1e-9 / static_cast<double>(step + 1 - first);
      char line[192];
      std::snprintf(
          line, sizeof line,
          "step %6ld/%ld  loss %.5f  %s %.5f  lr %.3e  |g| %.3f  %8.2f ms  %8.2f %s/s  %5.0f s left",
          step + 1, spec_.train.steps, loss, error_name(plan_).c_str(), error, lr, norm, seconds * 1e3,
          of_words(plan_) ? rate * static_cast<double>(spec_.net.tokens()) : rate,
          of_words(plan_) ? "tokens" : "samples", spent * static_cast<double>(spec_.train.steps - step - 1));
      say(line);
    }
  }

  /// Returns true if the loss is the lowest so far.
  bool validate(int64_t step) {
    metrics_->pause();
    const ValidRecord record = (*validation_)(step);
    const TrainSpec& t = spec_.train;
    const bool watched = t.lr_schedule == "plateau" || may_stop_early(t) || t.checkpoint_best;
    const bool best = step > 0 && watched && observe(step, *record.loss, record.jacobian);
    log_.write(record);
    curves_.add(record);
    if (const std::string png = validation_->picture(); !png.empty()) curves_.add_picture(step, png);
    say(validation_->text());
    return best;
  }

  void tell_ranks(int64_t step) {
    const RanksRecord ranks = metrics_->report(step, *executor_);
    log_.write(ranks);
    curves_.add(ranks, spec_.train.global_batch);
    const std::string text = ranks.text();
    if (!text.empty()) say("ranks after step " + std::to_string(step) + ": " + text);
  }

  // Broadcasts what rank 0 has seen, bit for bit, so that learning rates and stopping agree on all ranks.
  bool observe(int64_t step, double loss, const std::optional<JacobianRecord>& jacobian) {
    char text[80];
    std::snprintf(text, sizeof text, "%a %a", loss, jacobian ? jacobian->frobenius : 0.0);
    const std::string seen = mpi_.from_first(text);
    char* end = nullptr;
    loss = std::strtod(seen.c_str(), &end);
    const double norm = std::strtod(end, nullptr);
    if (spec_.train.lr_schedule == "plateau") plateau_.observe(spec_.train, loss);
    return early_.observe(spec_.train, step, loss,
                          spec_.train.jacobian_samples > 0 ? std::optional(norm) : std::nullopt);
  }

  TrainState state_after(int64_t step) {
    TrainState state{.step = step, .plateau = plateau_, .early = early_};
    if (!scaled_) return state;
    const float* scalars = on_host(plan_.scalars);
    state.updates = static_cast<int64_t>(scalars[kStep]);
    state.loss_scale = static_cast<double>(scalars[kLossScale]);
    state.good_steps = static_cast<int64_t>(scalars[kGoodSteps]);
    return state;
  }

  void checkpoint(int64_t step, bool best = false) {
    if (spec_.run.out.empty() || saved_ == step) return;
    metrics_->pause();
    const int64_t t0 = now_ns();
    backend_->download({plan_.params_all, plan_.adam_m, plan_.adam_v});
    if (some_halves()) backend_->download({plan_.params16_all});
    if (plan_.ema_all) backend_->download({plan_.ema_all});
    const auto writing = slow_.begin("writing a checkpoint");
    const auto dir = save_checkpoint(
        spec_.run.out, plan_, on_host(plan_.params_all), on_host(plan_.adam_m), on_host(plan_.adam_v),
        {.train = state_after(step), .spec = spec_, .channels = data_->net_channels()},
        meeting_of(mpi_, threads_, &slow_), some_halves() ? backend_->host(plan_.params16_all) : nullptr,
        on_host(plan_.ema_all));
    last_checkpoint_ = dir.string();
    saved_ = step;
    if (best && mpi_.rank() == 0) name_best(dir);
    if (const int64_t keep = spec_.train.checkpoint_keep; keep > 0 && mpi_.rank() == 0)
      keep_last(spec_.run.out, keep);
    backend_->drop_host_copies();
    const double seconds = static_cast<double>(now_ns() - t0) * 1e-9;
    log_.write(CheckpointRecord{step, dir.string(), seconds});
  }

  [[noreturn]] void stop(int64_t step, int64_t first) {
    const int64_t every = spec_.train.checkpoint_every;
    std::string message =
        "stopped by " + signal_name(watch_.stop_signal()) + " after step " + std::to_string(step);
    if (every > 0 && !spec_.run.out.empty() && step > first) {
      if (step % every != 0) checkpoint(step);
      message += "; go on with --resume " + spec_.run.out;
    } else if (every == 0) {
      message += "; without a checkpoint, as train.checkpoint_every is 0";
    }
    throw Interrupted(watch_.stop_signal(), message);
  }

  SlowWork& slow_;
  Watchdog& watch_;
  Starting& starting_;
  const RunSpec& spec_;
  const TrainOptions& options_;
  RunSpec weighted_ = spec_;  // with loss weights, which depend on the data
  const Resume* resume_;
  const Mpi& mpi_;
  ResultLog& log_;
  Curves curves_;
  const int threads_;
  const ComputeDevice device_;
  const std::string micro_batch_;  // how it was chosen
  const Plan plan_;
  const Program train_program_;
  std::vector<Program> shorter_;       // programs of shorter roll-outs, by steps - 1
  std::optional<OwnCores> own_cores_;  // before anything starts threads
  std::optional<RankData> data_;
  std::unique_ptr<Processor> processor_;
  Backend* backend_ = nullptr;
  Runner* executor_ = nullptr;
  std::optional<RankMetrics> metrics_;
  std::optional<Validation> validation_;
  std::optional<ReplayBuffer> replay_;
  std::optional<TracedSteps> trace_;
  std::vector<double> step_seconds_;
  double timed_seconds_ = 0;  // sum over steps whose ops were timed
  Plateau plateau_;
  EarlyStop early_;
  int64_t saved_ = -1;  // step of the last checkpoint
  double final_loss_ = 0;
  std::string last_checkpoint_;
  int64_t started_ = 0;
  const bool scaled_ = spec_.policy.amp == "fp16";
};

EndRecord known_end(const Start& start, const RunSpec& spec, bool says) {
  if (says)
    std::printf("%s: %s\n", spec.run.out.c_str(),
                start.end.stopped ? ("the training has ended: " + *start.end.stopped).c_str()
                                  : ("the training has come to step " + std::to_string(spec.train.steps) +
                                     ", its last; to go on, raise train.steps")
                                        .c_str());
  return start.end;
}

}  // namespace

std::string class_of(const std::exception& e) {
  if (dynamic_cast<const ConfigError*>(&e)) return "bad_config";
  if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&e))
    if (path->code() == std::errc::filename_too_long) return "bad_config";
  if (dynamic_cast<const NumericFailure*>(&e)) return "numeric";
  if (dynamic_cast<const Interrupted*>(&e)) return "interrupted";
  if (dynamic_cast<const DeviceOutOfMemory*>(&e)) return "oom_device";
  if (dynamic_cast<const OutOfMemory*>(&e) || dynamic_cast<const std::bad_alloc*>(&e)) return "oom_host";
  if (const auto* system = dynamic_cast<const std::system_error*>(&e))  // as a thread that cannot start
    if (system->code() == std::errc::resource_unavailable_try_again ||
        system->code() == std::errc::not_enough_memory)
      return "oom_host";
  return "crash";
}

int threads_per_rank(const RunSpec& spec, const Mpi& mpi) {
  if (spec.run.threads > 0) return static_cast<int>(spec.run.threads);
  return std::max(1, cores_of(mpi) / mpi.ranks_on_host());
}

EndRecord train(const RunSpec& given, const TrainOptions& options, const Mpi& mpi) {
  RunSpec spec = given;  // micro-batch is resolved below, before anything is planned
  if (spec.layout.world() != mpi.size())
    throw ConfigError(spec.file, "layout",
                      "dp*tp*cp*pp = " + std::to_string(spec.layout.world()) + ", but the run has " +
                          std::to_string(mpi.size()) + " ranks",
                      "start it with --ranks " + std::to_string(spec.layout.world()));
  // Before anything that writes into run.out, which may be another training's.
  const ResumeWish wish{options.resume, options.set_aside};
  Start start = start_of(spec, wish, mpi);
  const bool says = mpi.rank() == 0 && !options.quiet;
  if (start.over) return known_end(start, spec, says);
  if (options.begins) options.begins();
  const StopSignals signals;
  SlowWork slow;
  BackgroundWriter writer;
  Watchdog watch(&mpi, slow, writer, spec.run.hang_timeout, watchdog_reports(spec, mpi));
  Starting starting(slow);
  starting.stage("looking for the device");
  const ComputeDevice device = choose_device(spec, mpi.rank_on_host());
  starting.stage("planning");
  const MicroBatchChoice micro_batch = choose_micro_batch(device, spec, mpi);
  spec.policy.micro_batch = micro_batch.spec.policy.micro_batch;
  open_resumed(start, spec, wish, mpi, meeting_of(mpi, threads_per_rank(spec, mpi), &slow));
  if (start.over) {  // as an earlier one says, where the last was damaged
    watch.leave();
    return known_end(start, spec, says);
  }
  if (start.resume && mpi.rank() == 0) compare_again(*start.resume, spec);
  if (mpi.rank() == 0) check_world(spec, workspace_of(device, spec, threads_per_rank(spec, mpi)));
  ResultLog log = mpi.rank() == 0 ? log_of(spec) : ResultLog();
  log.slow_by(&slow);
  // A failing rank reports its error, unless another did before.
  const auto tell = [&](const std::exception& e) {
    if (options.failed) options.failed(e);
    const auto writing = slow.begin("writing why it failed");
    log_of(spec).end({.status = "failed", .failure = class_of(e), .message = e.what(), .rank = mpi.rank()});
  };
  EndRecord end;
  bool reported = false;
  try {
    Trainer trainer(spec, options, start.resume ? &*start.resume : nullptr, device, micro_batch.text(), mpi,
                    log, slow, watch, starting);
    try {
      end = trainer.run();
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& e) {
      // Before communicators are aborted and buffers freed, which may never return on a hanging device.
      reported = true;
      tell(e);
      throw;
    }
  } catch (const Interrupted& e) {
    log.end(interrupted(e.signal, e.what()));
    watch.leave();
    throw;
  } catch (const std::exception& e) {
    if (!reported) tell(e);  // failed before the first step
    throw;
  }
  watch.leave();
  return end;
}

}  // namespace isobar
