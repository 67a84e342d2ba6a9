#include "model/engine/observers/observers.h"
#include "model/records/advice.h"

namespace isobar::engine {
namespace {

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

}  // namespace

std::unique_ptr<RunObserver> advice_giver(const Observed& o) {
  return std::make_unique<AdviceGiver>(o);
}

}  // namespace isobar::engine
