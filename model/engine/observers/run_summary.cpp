#include "model/engine/executor.h"
#include "model/engine/observers/observers.h"
#include "model/engine/output/summary.h"

namespace isobar::engine {
namespace {

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

}  // namespace

std::unique_ptr<RunObserver> run_summary(const Observed& o) {
  return std::make_unique<RunSummary>(o);
}

}  // namespace isobar::engine
