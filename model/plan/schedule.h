// Pipeline schedules as compute-only action lists of one stage: what PyTorch prints as 2F0. Sends, receives,
// gradient reduction and slots are derived from them.
//
// GPipe (Huang 2019); 1F1B (Narayanan 2019); interleaved 1F1B (Narayanan 2021, Megatron's order of virtual
// micro-batches); ZB-H1 (Qi 2023), which splits the backward pass: the input gradient, for which the previous
// stage waits, goes first, and weight gradients fill the bubbles. Tests hold in-flight micro-batches, warm-up
// counts and bubbles to closed forms.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/settings.h"

namespace isobar::plan {

struct Action {
  enum class Type : uint8_t { forward, backward, backward_input, backward_weight } type;
  int32_t chunk;  // model chunk on this stage, 0 … vpp-1
  int32_t micro;
  int32_t step = 0;  // of a roll-out
};

/// p stages, this one is `stage`, m micro-batches, v chunks per stage; v > 1 requires that p divides m; ZB-H1
/// has one chunk. Throws std::invalid_argument.
std::vector<Action> schedule_actions(PipelineSchedule kind, int p, int stage, int m, int v = 1);

inline bool runs_rollouts(PipelineSchedule kind) {
  return kind == PipelineSchedule::gpipe || kind == PipelineSchedule::one_f_one_b;
}
/// A roll-out of `steps` steps with backward through the last `learnt`, the same on every stage. Groups of p
/// micro-batches run step by step, each step on all of them, and go back in reverse before the next group
/// begins; with GPipe all go forward first. `kind`: one that runs_rollouts().
std::vector<Action> rollout_actions(PipelineSchedule kind, int p, int m, int steps, int learnt);
/// Micro-batches that hold slots at once; each has one for every step with a backward pass.
int64_t rolling_together(PipelineSchedule kind, int64_t p, int64_t m);

/// Idle time of a stage, in forward and backward passes of one step of a micro-batch, if all stages take
/// equally long: p stages share fewer than p micro-batches, or fill and drain.
struct RollOutIdle {
  double forward = 0, backward = 0;
};
RollOutIdle rollout_idle(PipelineSchedule kind, int64_t p, int64_t m, int64_t steps, int64_t learnt);

/// The slots that each chunk's saved buffers need: most micro-batches that are forwarded and whose backward,
/// weight gradients included, is not complete.
std::vector<int64_t> in_flight(const std::vector<Action>& actions, int v);

}  // namespace isobar::plan
