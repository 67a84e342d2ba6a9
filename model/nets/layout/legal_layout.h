// Legal layouts of a net, on any machine. The rules are pure functions of a few numbers, so that a search
// over millions of layouts can use them.
//
//   check_layout(spec);      // ConfigError names the key and the nearest legal sizes
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"

namespace isobar::nets {

/// `spec` must be valid (validate).
void check_layout(const RunSpec& spec);

/// Sizes of a net that the layout's axes cut.
struct NetLimits {
  struct Size {
    std::string name;  // "net.num_heads"
    int64_t value;
  };
  std::vector<Size> tp;          // tensor parallelism divides each
  int64_t kv_heads;              // Ulysses divides them after tensor parallelism
  int64_t tokens;                // of its coarsest grid
  int64_t bands = 0;             // most ranks of context parallelism; 0: as many as tokens
  int64_t inner_parts;           // between its ends: at least one for each chunk of a pipeline
  int64_t only_stages = 0;       // pipeline chunks of layout.stages; 0: any number
  std::string no_tp = "";        // why tensor parallelism cannot cut its layers; "": it can
  std::string no_cp = "";        // likewise context parallelism and its tokens
  std::string no_sequence = "";  // likewise sequence parallelism and its rows
  std::string no_pp = "";        // likewise pipelines and its parts
  std::string no_runs = "";      // likewise attention by runs of tokens: rings and zig-zags
  bool attends = true;           // policy.cp_kind distributes its attention
  bool causal = false;           // its queries see earlier tokens alone
  int64_t experts = 0;           // of a block
  int64_t most_cp() const { return bands > 0 ? bands : tokens; }
};
NetLimits limits_of(const NetSpec& net);
/// layout.stages of a run fixes the number of its pipeline chunks.
NetLimits limits_of(const RunSpec& spec);

/// Tensor parallelism cuts heads, key-value heads and the MLP's width.
inline bool tp_cuts(const NetLimits& n, int64_t tp) {
  return tp == 1 || (n.no_tp.empty() && std::all_of(n.tp.begin(), n.tp.end(), [&](const NetLimits::Size& s) {
                       return s.value % tp == 0;
                     }));
}
inline bool cp_cuts(const NetLimits& n, int64_t cp) {
  return cp == 1 || (n.no_cp.empty() && cp <= n.most_cp());
}
/// Expert parallelism divides the experts among ranks of dp and cp.
inline bool ep_divides(const NetLimits& n, int64_t ep, int64_t dp, int64_t cp) {
  return ep == 1 || (n.experts > 0 && n.experts % ep == 0 && dp * cp % ep == 0);
}
/// Ulysses cuts the heads that tensor parallelism leaves.
inline bool ulysses_cuts(const NetLimits& n, int64_t tp, int64_t cp) {
  return cp_cuts(n, cp) && n.kv_heads / tp % cp == 0;
}
/// Nets without attention have one kind of context parallelism.
inline bool kind_cuts(const NetLimits& n, int64_t cp, CpKind kind) {
  return cp == 1 || n.attends || kind == CpKind::allgather;
}
inline bool ring_cuts(const NetLimits& n, int64_t cp) {
  return cp == 1 || (n.no_runs.empty() && cp * (n.causal ? 2 : 1) <= n.tokens);
}
/// Ranks of context parallelism have two runs of a causal sample's tokens each (sharding.h).
inline bool zig_zags(const NetLimits& n, int64_t cp, CpKind kind) {
  return n.causal && cp > 1 && kind != CpKind::ulysses && ring_cuts(n, cp);
}
/// Sequence parallelism needs a row for each rank, also on the last rank of context parallelism.
inline bool sequence_cuts(const NetLimits& n, int64_t micro_batch, int64_t cp, int64_t tp) {
  return tp == 1 || (n.no_sequence.empty() && micro_batch * (n.tokens / cp) >= tp);
}
/// Each chunk of each stage needs a part between the ends; a single stage has only the ends.
inline bool stages_fill(const NetLimits& n, int64_t pp, int64_t vpp) {
  if (!n.no_pp.empty() && pp * vpp > 1) return false;
  if (n.only_stages > 0 && pp * vpp > 1) return pp * vpp == n.only_stages;
  return pp * vpp <= std::max<int64_t>(1, n.inner_parts);
}
/// A replay buffer takes what a step predicts from one micro-batch.
inline bool fills_replay(const TrainSpec& train, int64_t micro_batches) {
  return train.replay_capacity == 0 || micro_batches == 1;
}
/// Interleaved chunks take turns by pp micro-batches (Narayanan 2021).
inline bool interleaves(int64_t micro_batches, int64_t pp) {
  return micro_batches % pp == 0;
}

/// ZB-H1 postpones weight gradients: it needs a pipeline with bubbles, the activations they read, and whole
/// fp32 gradients to add to.
struct ZeroBubbleNeeds {
  bool pipeline, activations, whole_gradients, fp32_gradients;
  bool all() const { return pipeline && activations && whole_gradients && fp32_gradients; }
};
inline ZeroBubbleNeeds zero_bubble_needs(int64_t pp, bool recomputes, int64_t zero, bool fp32_gradients) {
  return {pp > 1, !recomputes, zero < 2, fp32_gradients};
}

}  // namespace isobar::nets
