// Which layouts a net can be cut into, whatever it runs on. The rules are pure functions of a few numbers: a
// search that goes through millions of layouts asks the same ones.
//
//   check_layout(spec);      // ConfigError names the key and the nearest sizes that can be run
#pragma once
#include "model/base/spec.h"

namespace isobar {

/// `spec` is valid (validate) beforehand.
void check_layout(const RunSpec& spec);

/// Tensor parallelism cuts heads, those of keys and values, and the MLP's width.
inline bool tp_cuts(const NetSpec& n, int64_t tp) {
  return n.num_heads % tp == 0 && n.kv_heads() % tp == 0 && n.hidden() % tp == 0;
}
inline bool cp_cuts(const NetSpec& n, int64_t cp) {
  return cp <= n.tokens();
}
/// Ulysses gives each rank as many of the heads that tensor parallelism leaves.
inline bool ulysses_cuts(const NetSpec& n, int64_t tp, int64_t cp) {
  return cp_cuts(n, cp) && n.kv_heads() / tp % cp == 0;
}
/// Sequence parallelism leaves each rank a row of what the last rank of context parallelism has.
inline bool sequence_cuts(const NetSpec& n, int64_t micro_batch, int64_t cp, int64_t tp) {
  return micro_batch * (n.tokens() / cp) >= tp;
}
/// A block for each chunk of each stage.
inline bool stages_fill(const NetSpec& n, int64_t pp, int64_t vpp) {
  return pp * vpp <= n.depth;
}
/// Interleaved chunks take turns by pp micro-batches (Narayanan 2021).
inline bool interleaves(int64_t micro_batches, int64_t pp) {
  return micro_batches % pp == 0;
}

/// ZB-H1 puts weight gradients off: it needs a pipeline whose bubbles they fill, the activations they read,
/// and whole gradients in fp32 that they are added to.
struct ZeroBubbleNeeds {
  bool pipeline, activations, whole_gradients, fp32_gradients;
  bool all() const { return pipeline && activations && whole_gradients && fp32_gradients; }
};
inline ZeroBubbleNeeds zero_bubble_needs(int64_t pp, bool recomputes, int64_t zero, bool fp32_gradients) {
  return {pp > 1, !recomputes, zero < 2, fp32_gradients};
}

}  // namespace isobar
