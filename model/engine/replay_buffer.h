// The predictions of a replay buffer, in host memory: of each entry of model/data/replay_schedule.h the
// newest times of an input, as far as they were predicted. A rank holds the rows of tokens that it reads and
// predicts.
//
//   ReplayBuffer replay(spec, plan, schedule);
//   replay.fill(step, input);                 // into what the loader has read for this step
//   replay.take(step, predicted);             // Plan::replayed, once the step is over
#pragma once
#include <cstdint>
#include <vector>

#include "model/data/replay_schedule.h"
#include "model/inference/arena.h"
#include "model/plan/plan.h"

namespace isobar {

class ReplayBuffer {
 public:
  /// `plan`: of a rank that reads the net's input. Takes Memory::replay bytes; throws OutOfMemory.
  ReplayBuffer(const RunSpec& spec, const Plan& plan, ReplaySchedule schedule);
  /// input [batch, channels, H, W]: what was predicted takes the place of what the data say. What was
  /// predicted before this run was resumed is not there any more, and stays as the data have it.
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

  ReplaySchedule schedule_;
  const Attrs image_;  // how what is read lies, and which rows of it are this rank's
  const int64_t history_, predicted_, fixed_, row_;
  std::vector<std::vector<int64_t>> held_;  // by sample of the batch and entry: times that were predicted
  Arena states_;                            // [entry, age, row, p p C']
};

}  // namespace isobar
