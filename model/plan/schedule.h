// Pipeline schedules as compute-only action lists of one stage: what PyTorch prints as 2F0. Sends, receives,
// gradient reduction and slots are derived from them, never part of them.
//
// GPipe (Huang 2019); 1F1B (Narayanan 2019); interleaved 1F1B (Narayanan 2021, Megatron's order of virtual
// micro-batches); ZB-H1 (Qi 2023), which splits the backward pass: the input gradient, which the stage before
// waits for, goes first, and weight gradients, which nobody waits for, fill what would be bubbles. In-flight
// micro-batches, warm-up counts and bubbles have closed forms that tests hold these to.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

struct Action {
  enum class Type : uint8_t { forward, backward, backward_input, backward_weight } type;
  int32_t chunk;  // model chunk on this stage, 0 … vpp-1
  int32_t micro;
  int32_t step = 0;  // of a roll-out
};

/// `kind`: gpipe | 1f1b | interleaved | zb-h1. p stages, this one is `stage`, m micro-batches, v chunks per
/// stage; with v > 1 p must divide m; zb-h1 has one chunk. Throws std::invalid_argument.
std::vector<Action> schedule_actions(const std::string& kind, int p, int stage, int m, int v = 1);

inline bool runs_rollouts(const std::string& kind) {
  return kind == "gpipe" || kind == "1f1b";
}
/// Of a roll-out of `steps` steps, the last `learnt` of which are gone back through: as many micro-batches as
/// there are stages take their steps by turns, each step's on all of them, and come back in reverse before
/// the next ones begin; with gpipe all go before any comes back. The same on every stage. `kind`: gpipe |
/// 1f1b.
std::vector<Action> rollout_actions(const std::string& kind, int p, int m, int steps, int learnt);
/// Micro-batches that hold slots at once; each has one for every step that is gone back through.
int64_t rolling_together(const std::string& kind, int64_t p, int64_t m);

/// How long a stage waits for others, in forward passes and in backward passes of one step of a micro-batch,
/// where all stages take equally long: p stages hand fewer than p micro-batches round, or fill and drain.
struct RollOutIdle {
  double forward = 0, backward = 0;
};
RollOutIdle rollout_idle(const std::string& kind, int64_t p, int64_t m, int64_t steps, int64_t learnt);

/// Most micro-batches of each chunk that are forwarded and not yet wholly backwarded (their weight gradients
/// too): the slots its saved buffers need.
std::vector<int64_t> in_flight(const std::vector<Action>& actions, int v);

}  // namespace isobar
