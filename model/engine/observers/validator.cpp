#include "model/engine/observers/observers.h"

namespace isobar::engine {
namespace {

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

}  // namespace

std::unique_ptr<RunObserver> validator(const Observed& o, RunObserver& all) {
  return std::make_unique<Validator>(o, all);
}

}  // namespace isobar::engine
