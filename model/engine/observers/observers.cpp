#include "model/engine/observers/observers.h"

#include <cstdio>
#include <cstdlib>

#include "model/engine/executor.h"
#include "model/engine/host/host.h"
#include "model/engine/observers/rank_metrics.h"
#include "model/engine/output/summary.h"
#include "model/records/advice.h"

namespace isobar::engine {
namespace {

/// Follows validations for the learning rate (plateau), the best checkpoint and an early stop. Collective.
class EarlyStopping : public RunObserver {
 public:
  explicit EarlyStopping(const Observed& o) : run_(o.run), train_(o.run.spec.train), progress_(o.progress) {}

  void on_valid(const records::ValidRecord& record, Validation&) override {
    const bool watched = train_.lr_schedule == LrSchedule::plateau || inference::may_stop_early(train_) ||
                         train_.checkpoint_best;
    if (record.step > 0 && watched) observe(record);
  }
  void on_end(records::EndRecord&) override {
    if (const std::string& why = progress_.early.reason; !why.empty())
      run_.say("stopped after step " + std::to_string(progress_.step) + ": " + why);
  }

 private:
  // Broadcasts what rank 0 has seen, bit for bit, so that learning rates and stopping agree on all ranks.
  void observe(const records::ValidRecord& record) {
    char text[80];
    std::snprintf(text, sizeof text, "%a %a", *record.loss,
                  record.jacobian ? record.jacobian->frobenius : 0.0);
    const std::string seen = run_.mpi.from_first(text);
    char* end = nullptr;
    const double loss = std::strtod(seen.c_str(), &end);
    const double norm = std::strtod(end, nullptr);
    if (train_.lr_schedule == LrSchedule::plateau) progress_.plateau.observe(train_, loss);
    if (progress_.early.observe(train_, record.step, loss,
                                train_.jacobian_samples > 0 ? std::optional(norm) : std::nullopt))
      progress_.best_step = record.step;
  }

  const TrainContext& run_;
  const TrainSpec& train_;
  RunProgress& progress_;
};

/// Statistics of steps and op times without warm-up: fills run_end.
class RunSummary : public RunObserver {
 public:
  explicit RunSummary(const Observed& o) : o_(o), runner_(o.processor.runner()) {}

  void on_step_begin(int64_t, bool restarts) override {
    if (begun_ns_ == 0) begun_ns_ = now_ns();
    if (!restarts) return;
    runner_.reset_op_times();
    step_seconds_.clear();
    timed_seconds_ = 0;
  }
  void on_step(const StepResult& r) override {
    step_seconds_.push_back(r.record.seconds);
    if (r.ops_timed) timed_seconds_ += r.record.seconds;
    final_loss_ = r.record.loss;
  }
  void on_valid(const records::ValidRecord&, Validation& pass) override { valid_ = pass.last(); }
  void on_checkpoint(const records::CheckpointRecord& record) override { checkpoint_ = record.path; }
  void on_end(records::EndRecord& end) override {
    const RunProgress& p = o_.progress;
    end = summary_of_run(o_.run.spec, o_.plan, runner_.op_times(), runner_.routine_times(), step_seconds_,
                         timed_seconds_);
    end.steps = p.step;
    end.trained_steps = p.step - p.first;
    if (!p.early.reason.empty()) end.stopped = p.early.reason;
    end.seconds = static_cast<double>(now_ns() - begun_ns_) * 1e-9;
    end.final_loss = final_loss_;
    end.valid = valid_;
    end.checkpoint = checkpoint_;
  }

 private:
  const Observed o_;
  Runner& runner_;
  int64_t begun_ns_ = 0;  // of the first step
  std::vector<double> step_seconds_;
  double timed_seconds_ = 0;  // sum over steps whose ops were timed
  std::optional<double> final_loss_;
  std::optional<records::LastValid> valid_;
  std::optional<std::string> checkpoint_;  // the last one
};

/// Lines of result.jsonl.
class ResultWriter : public RunObserver {
 public:
  explicit ResultWriter(const Observed& o) : log_(o.run.log), processor_(o.processor) {}

  void on_step(const StepResult& r) override {
    if (!log_.on()) return;
    records::StepRecord record = r.record;
    record.rss_bytes = resident_bytes();
    log_.write_step(record);
  }
  void on_valid(const records::ValidRecord& record, Validation&) override { log_.write(record); }
  void on_epoch(const records::EpochRecord& record) override { log_.write(record); }
  void on_checkpoint(const records::CheckpointRecord& record) override { log_.write(record); }
  void on_ranks(const records::RanksRecord& record) override { log_.write(record); }
  void on_end(records::EndRecord& end) override {
    // Again, with memory allocated since the start
    if (const auto about = processor_.describe(); !about.is_null()) log_.write(records::DeviceRecord{about});
    log_.write(end);
  }

 private:
  ResultLog log_;
  const Processor& processor_;
};

/// Says what slows the steps, once for each cause (model/records/advice.h).
class AdviceGiver : public RunObserver {
 public:
  explicit AdviceGiver(const Observed& o)
      : run_(o.run), advisor_({.expected = o.run.options.expected, .workers = o.run.spec.data.workers}) {}

  void on_step(const StepResult& r) override {
    if (r.record.step % kEvery == 0) advisor_.swapped(records::swapped_in_bytes() - swapped_);
    if (const auto advice = advisor_.step(r.record)) run_.say("advice: " + *advice);
  }
  void on_ranks(const records::RanksRecord& record) override { advisor_.ranks(record); }

 private:
  static constexpr int64_t kEvery = 20;  // steps between looks at swap
  const TrainContext& run_;
  records::Advisor advisor_;
  const int64_t swapped_ = records::swapped_in_bytes();
};

/// Validates before the first step, at intervals and at the end: on_valid of `all`. Collective.
class Validator : public RunObserver {
 public:
  Validator(const Observed& o, RunObserver& all)
      : o_(o),
        all_(all),
        pass_(o.weighted, o.plan, o.data, o.processor, o.run.mpi, o.run.threads, o.run.background.slow()) {}

  void on_start() override {
    if (o_.run.spec.train.valid_every != 0 && o_.progress.first == 0) validate();
  }
  void on_step(const StepResult&) override {
    const RunSpec& spec = o_.run.spec;
    if (o_.progress.step == spec.train.steps || validation_due(spec, o_.progress)) validate();
  }

 private:
  void validate() {
    if (!o_.data.has_validation()) return;
    all_.on_pause();
    const records::ValidRecord record = pass_(o_.progress.step);
    all_.on_valid(record, pass_);
  }

  const Observed o_;
  RunObserver& all_;
  Validation pass_;
};

/// Sums up epochs in runs that count them: on_epoch of `all`.
class EpochCounter : public RunObserver {
 public:
  EpochCounter(const Observed& o, RunObserver& all) : o_(o), all_(all) {}

  void on_step_begin(int64_t, bool) override { step_begun_ns_ = now_ns(); }
  // Reading the samples counts, validations and checkpoints do not.
  void on_step(const StepResult& r) override {
    sums_.steps += 1;
    sums_.seconds += static_cast<double>(r.end_ns - step_begun_ns_) * 1e-9;
    loss_ += *r.record.loss;
    const RunProgress& p = o_.progress;
    if (due(TrainSpec::kEpoch, p) || p.over(o_.run.spec)) end_epoch(*r.record.epoch + 1);
  }
  // Before this step's on_step, which it belongs to.
  void on_valid(const records::ValidRecord& record, Validation&) override { valid_ = record; }

 private:
  void end_epoch(int64_t epoch) {
    records::EpochRecord record = sums_;
    record.epoch = epoch;
    record.step = o_.progress.step;
    record.loss = loss_ / static_cast<double>(sums_.steps);
    record.samples_per_s = static_cast<double>(sums_.steps * o_.run.spec.train.global_batch) / sums_.seconds;
    if (valid_ && valid_->step == record.step) {
      record.valid_loss = valid_->loss;
      record.valid_seconds = valid_->seconds;
    }
    sums_ = {};
    loss_ = 0;
    all_.on_epoch(record);
  }

  const Observed o_;
  RunObserver& all_;
  int64_t step_begun_ns_ = 0;
  records::EpochRecord sums_;  // of the epoch so far, in this run
  double loss_ = 0;
  std::optional<records::ValidRecord> valid_;  // the last one
};

/// Meters each rank's times and energy, and reports them after validations and checkpoints and at the end:
/// on_ranks of `all`. Collective.
class RankReports : public RunObserver {
 public:
  RankReports(const Observed& o, RunObserver& all)
      : o_(o), all_(all), metrics_(o.plan, o.processor, o.run.mpi, o.run.device.gpu) {}

  void on_step_begin(int64_t, bool restarts) override {
    if (restarts) metrics_.reset();
    metrics_.begin_step();
  }
  void on_pause() override { metrics_.pause(); }
  void on_step(const StepResult& r) override {
    metrics_.add(r.record.seconds, r.record.data_wait_s.value_or(0));
    if (due()) all_.on_ranks(metrics_.report(o_.progress.step, o_.processor.runner()));
  }

 private:
  bool due() const {
    const RunProgress& p = o_.progress;
    const RunSpec& spec = o_.run.spec;
    return p.step - p.first > kWarmupSteps && (p.over(spec) || save_due(spec, p) || validation_due(spec, p));
  }

  const Observed o_;
  RunObserver& all_;
  RankMetrics metrics_;
};

}  // namespace

void add_observers(RunObservers& all, const Observed& o, std::unique_ptr<RunObserver> curves) {
  all.add(start_times(o));
  all.add(std::make_unique<EarlyStopping>(o));
  if (!o.run.options.trace.empty()) all.add(step_trace(o));
  all.add(std::make_unique<RunSummary>(o));
  all.add(std::make_unique<ResultWriter>(o));
  all.add(std::move(curves));
  all.add(step_table(o));
  all.add(std::make_unique<AdviceGiver>(o));
  all.add(std::make_unique<Validator>(o, all));
  if (o.run.spec.train.counts_epochs()) all.add(std::make_unique<EpochCounter>(o, all));
  all.add(checkpointer(o, all));
  all.add(std::make_unique<RankReports>(o, all));
}

}  // namespace isobar::engine
