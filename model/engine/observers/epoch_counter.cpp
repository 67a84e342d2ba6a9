#include "model/engine/executor.h"
#include "model/engine/observers/observers.h"

namespace isobar::engine {
namespace {

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

}  // namespace

std::unique_ptr<RunObserver> epoch_counter(const Observed& o, RunObserver& all) {
  return std::make_unique<EpochCounter>(o, all);
}

}  // namespace isobar::engine
