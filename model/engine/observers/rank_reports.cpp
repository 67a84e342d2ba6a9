#include "model/engine/observers/observers.h"
#include "model/engine/observers/rank_metrics.h"

namespace isobar::engine {
namespace {

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

std::unique_ptr<RunObserver> rank_reports(const Observed& o, RunObserver& all) {
  return std::make_unique<RankReports>(o, all);
}

}  // namespace isobar::engine
