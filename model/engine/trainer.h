// The training loop of one rank. run() is the page to read first: begin, and then for each step execute the
// plan's program, read its metrics, and let the observers see them (observers/observers.h).
//
//   Trainer trainer(run);                     // plan, data, memory: nothing is computed yet
//   const EndRecord end = trainer.run();
#pragma once
#include <memory>
#include <optional>

#include "model/engine/host/own_cores.h"
#include "model/engine/observers/run_observer.h"
#include "model/engine/rank_data.h"
#include "model/engine/replay_buffer.h"
#include "model/engine/run_progress.h"
#include "model/engine/step_programs.h"
#include "model/engine/train_context.h"

namespace isobar::engine {

class Trainer {
 public:
  /// Collective. `run` must outlive it.
  explicit Trainer(const TrainContext& run);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// The record of the run's end; `interrupted` where a signal stopped it. Collective.
  records::EndRecord run();

 private:
  void open_data();
  void weigh_loss();
  void take_memory();
  void add_watchers(std::unique_ptr<RunObserver> curves);

  void begin();
  StepResult execute(int64_t step);
  void read_samples(int64_t step, double& waited_s);
  void set_scalars(records::StepRecord& record);
  void read_metrics(StepResult& result) const;
  records::EndRecord stop();

  const TrainContext& run_;
  plan::Plan plan_;
  const StepPrograms programs_;
  std::optional<OwnCores> own_cores_;  // before anything starts threads
  std::optional<RankData> data_;
  RunSpec weighted_;  // with loss weights, which depend on the data
  std::unique_ptr<Processor> processor_;
  std::optional<ReplayBuffer> replay_;
  RunProgress progress_;
  RunObservers observers_;
};

}  // namespace isobar::engine
