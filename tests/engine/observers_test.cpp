// Moments of a training: observers are called in their order, and what is due after a step follows from the
// progress alone.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/engine/observers/run_observer.h"
#include "model/engine/run_progress.h"

namespace isobar::engine {
namespace {

class NotingObserver : public RunObserver {
 public:
  NotingObserver(std::string name, std::string& seen, RunObserver* all = nullptr)
      : name_(std::move(name)), seen_(seen), all_(all) {}
  void on_start() override { note("start"); }
  void on_step_begin(int64_t step, bool restarts) override {
    note((restarts ? "restart" : "begin") + std::to_string(step));
  }
  void on_step(const StepResult& r) override {
    note("step" + std::to_string(r.record.step));
    if (all_) all_->on_checkpoint({r.record.step, "here", 0});
  }
  void on_checkpoint(const records::CheckpointRecord& c) override { note(c.path + std::to_string(c.step)); }
  void on_end(records::EndRecord& end) override {
    note(end.status);
    end.status = name_;
  }

 private:
  void note(const std::string& what) { seen_ += name_ + ":" + what + " "; }
  const std::string name_;
  std::string& seen_;
  RunObserver* const all_;
};

TEST(Observers, SeeEachMomentInTheirOrder) {
  std::string seen;
  RunObservers all;
  all.add(std::make_unique<NotingObserver>("log", seen));
  all.add(std::make_unique<NotingObserver>("saves", seen, &all));  // its moment reaches those before it too
  all.on_start();
  all.on_step_begin(4, true);
  all.on_step({.record = {.step = 5}});
  records::EndRecord end{.status = "ok"};
  all.on_end(end);
  EXPECT_EQ(seen,
            "log:start saves:start log:restart4 saves:restart4 log:step5 saves:step5 log:here5 saves:here5 "
            "log:ok saves:log ");
  EXPECT_EQ(end.status, "saves");
}

TEST(RunProgress, SaysWhatIsDueAfterAStep) {
  RunSpec spec;
  spec.train.steps = 10;
  spec.train.valid_every = 4;
  spec.train.checkpoint_every = 3;
  const auto steps = [&](const std::function<bool(const RunProgress&)>& due, RunProgress p) {
    std::string out;
    for (p.step = 1; p.step <= 10; ++p.step) out += due(p) ? std::to_string(p.step) + " " : "";
    return out;
  };
  const auto saves = [&](const RunProgress& p) { return save_due(spec, p); };
  EXPECT_EQ(steps([&](const RunProgress& p) { return validation_due(spec, p); }, {}), "4 8 ");
  EXPECT_EQ(steps(saves, {}), "3 6 9 10 ");
  EXPECT_EQ(steps(saves, {.best_step = 8}), "3 6 9 10 ");
  spec.train.checkpoint_best = true;
  EXPECT_EQ(steps(saves, {.best_step = 8}), "3 6 8 9 10 ");
  spec.train.checkpoint_every = 0;
  EXPECT_EQ(steps(saves, {.best_step = 8}), "8 ");
  RunProgress stopped{.step = 4};
  stopped.early.reason = "no lower loss";
  spec.train.checkpoint_every = 3;
  EXPECT_TRUE(stopped.over(spec) && save_due(spec, stopped));
}

TEST(RunProgress, StatisticsRestartAfterWarmUpAndWhereRollOutsGrow) {
  RunSpec spec;
  spec.train.steps = 12;
  spec.train.rollout = 2;
  spec.train.rollout_every = 9;  // one step of the roll-out before, two from the tenth step on
  std::string restarts;
  for (RunProgress p{.first = 5, .step = 5}; p.step < 12; ++p.step)
    if (p.restarts_statistics(spec)) restarts += std::to_string(p.step) + " ";
  EXPECT_EQ(restarts, "5 7 9 ");
}

}  // namespace
}  // namespace isobar::engine
