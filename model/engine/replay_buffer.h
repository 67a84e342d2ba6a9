// Predictions of the replay buffer in host memory: for each entry of model/data/choice/replay_schedule.h the
// input times that were predicted. A rank holds the token rows that it reads and predicts.
//
//   ReplayBuffer replay(spec, plan, schedule);
//   replay.fill(step, input);                 // into what the loader has read for this step
//   replay.take(step, predicted);             // Plan::replayed, once the step is over
#pragma once
#include <cstdint>
#include <vector>

#include "model/data/choice/replay_schedule.h"
#include "model/inference/arena.h"
#include "model/plan/plan.h"

namespace isobar::engine {

class ReplayBuffer {
 public:
  /// `plan`: of a rank that reads the net's input. Allocates Memory::replay bytes; throws OutOfMemory.
  ReplayBuffer(const RunSpec& spec, const plan::Plan& plan, data::ReplaySchedule schedule);
  /// input [batch, channels, H, W]: replaces data by predictions. Predictions from before a resume are lost,
  /// so the data stay there.
  void fill(int64_t step, float* input);
  /// predicted [rows, p p C']
  void take(int64_t step, const float* predicted);

 private:
  struct Rows {
    int64_t first, end;
  };
  Rows rows_of(int64_t sample) const;
  float* state(int64_t entry, int64_t age) const;  // of all rows; age 0 is the newest time
  void write(int64_t row, const float* state, int64_t time, float* input) const;

  data::ReplaySchedule schedule_;
  const plan::ImageAttrs image_;  // layout of the input and this rank's rows
  const int64_t history_, predicted_, fixed_, row_;
  std::vector<std::vector<int64_t>> held_;  // by sample of the batch and entry: times that were predicted
  inference::Arena states_;                 // [entry, age, row, p p C']
};

}  // namespace isobar::engine
