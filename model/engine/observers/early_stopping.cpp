#include <cstdio>
#include <cstdlib>

#include "model/engine/observers/observers.h"

namespace isobar::engine {
namespace {

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

}  // namespace

std::unique_ptr<RunObserver> early_stopping(const Observed& o) {
  return std::make_unique<EarlyStopping>(o);
}

}  // namespace isobar::engine
