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
};

/// `kind`: gpipe | 1f1b | interleaved | zb-h1. p stages, this one is `stage`, m micro-batches, v chunks per
/// stage; with v > 1 p must divide m; zb-h1 has one chunk. Throws std::invalid_argument.
std::vector<Action> schedule_actions(const std::string& kind, int p, int stage, int m, int v = 1);

/// Most micro-batches of each chunk that are forwarded and not yet wholly backwarded (their weight gradients
/// too): the slots its saved buffers need.
std::vector<int64_t> in_flight(const std::vector<Action>& actions, int v);

}  // namespace isobar
