#include "model/engine/executor.h"
#include "model/engine/host/mpi_meeting.h"
#include "model/engine/observers/observers.h"
#include "model/engine/plan_memory.h"
#include "model/inference/weights/checkpoint.h"

namespace isobar::engine {
namespace {

class Checkpointer : public RunObserver {
 public:
  Checkpointer(const Observed& o, RunObserver& all)
      : o_(o), all_(all), memory_(o.plan, o.processor.backend()) {}

  void on_step(const StepResult&) override {
    if (save_due(o_.run.spec, o_.progress)) save();
  }
  void on_stop() override {
    if (o_.run.spec.train.checkpoint_every != 0 && o_.progress.step > o_.progress.first) save();
  }

 private:
  void save() {
    const int64_t step = o_.progress.step;
    if (o_.run.spec.run.out.empty() || saved_ == step) return;
    all_.on_pause();
    const int64_t t0 = now_ns();
    const std::filesystem::path dir = write(step);
    saved_ = step;
    o_.processor.backend().drop_host_copies();
    all_.on_checkpoint({step, dir.string(), static_cast<double>(now_ns() - t0) * 1e-9});
  }

  std::filesystem::path write(int64_t step) {
    const TrainSpec& train = o_.run.spec.train;
    memory_.download_weights();
    const auto writing = o_.run.background.slow().begin("writing a checkpoint");
    const auto dir = inference::save_checkpoint(
        o_.run.spec.run.out, o_.plan, memory_.params(), memory_.adam_m(), memory_.adam_v(),
        {.train = state(step), .spec = o_.run.spec, .channels = o_.data.net_channels()},
        meeting_of(o_.run.mpi, o_.run.threads, &o_.run.background.slow()), memory_.halves(),
        memory_.average());
    if (o_.run.mpi.rank() != 0) return dir;
    if (train.checkpoint_best && o_.progress.best_step == step) inference::name_best(dir);
    if (train.checkpoint_keep > 0) inference::keep_last(o_.run.spec.run.out, train.checkpoint_keep);
    return dir;
  }

  inference::TrainState state(int64_t step) {
    inference::TrainState s{.step = step, .plateau = o_.progress.plateau, .early = o_.progress.early};
    if (!scales_loss(o_.run.spec)) return s;
    const float* scalars = memory_.scalars();
    s.updates = static_cast<int64_t>(scalars[plan::kStep]);
    s.loss_scale = static_cast<double>(scalars[plan::kLossScale]);
    s.good_steps = static_cast<int64_t>(scalars[plan::kGoodSteps]);
    return s;
  }

  const Observed o_;
  RunObserver& all_;
  PlanMemory memory_;
  int64_t saved_ = -1;  // step of the last checkpoint
};

}  // namespace

std::unique_ptr<RunObserver> checkpointer(const Observed& o, RunObserver& all) {
  return std::make_unique<Checkpointer>(o, all);
}

}  // namespace isobar::engine
