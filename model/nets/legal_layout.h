// Which layouts a net can be cut into, whatever it runs on. The rules are pure functions of a few numbers: a
// search that goes through millions of layouts asks the same ones.
//
//   check_layout(spec);      // ConfigError names the key and the nearest sizes that can be run
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

/// `spec` is valid (validate) beforehand.
void check_layout(const RunSpec& spec);

/// What the axes cut of a net.
struct NetLimits {
  struct Size {
    std::string name;  // "net.num_heads"
    int64_t value;
  };
  std::vector<Size> tp;          // tensor parallelism divides each of them
  int64_t kv_heads;              // Ulysses divides what tensor parallelism leaves of them
  int64_t tokens;                // of its coarsest grid
  int64_t bands = 0;             // context parallelism cuts no finer than so many; 0: than tokens
  int64_t inner_parts;           // between its ends: at least one for each chunk of a pipeline
  int64_t only_stages = 0;       // chunks of a pipeline that its placement has; 0: any number
  std::string no_tp = "";        // why tensor parallelism cannot cut its layers; "": it can
  std::string no_cp = "";        // why context parallelism cannot cut its tokens; "": it can
  std::string no_sequence = "";  // … sequence parallelism its rows
  bool attends = true;           // policy.cp_kind says how its attention goes over ranks
  int64_t most_cp() const { return bands > 0 ? bands : tokens; }
};
NetLimits limits_of(const NetSpec& net);

/// Tensor parallelism cuts heads, those of keys and values, and the MLP's width.
inline bool tp_cuts(const NetLimits& n, int64_t tp) {
  return tp == 1 || (n.no_tp.empty() && std::all_of(n.tp.begin(), n.tp.end(), [&](const NetLimits::Size& s) {
                       return s.value % tp == 0;
                     }));
}
inline bool cp_cuts(const NetLimits& n, int64_t cp) {
  return cp == 1 || (n.no_cp.empty() && cp <= n.most_cp());
}
/// Ulysses gives each rank as many of the heads that tensor parallelism leaves.
inline bool ulysses_cuts(const NetLimits& n, int64_t tp, int64_t cp) {
  return cp_cuts(n, cp) && n.kv_heads / tp % cp == 0;
}
/// What does not attend is cut in one way.
inline bool kind_cuts(const NetLimits& n, int64_t cp, bool allgather) {
  return cp == 1 || n.attends || allgather;
}
/// Sequence parallelism leaves each rank a row of what the last rank of context parallelism has.
inline bool sequence_cuts(const NetLimits& n, int64_t micro_batch, int64_t cp, int64_t tp) {
  return tp == 1 || (n.no_sequence.empty() && micro_batch * (n.tokens / cp) >= tp);
}
/// A part between the ends for each chunk of each stage; one stage alone has the ends.
inline bool stages_fill(const NetLimits& n, int64_t pp, int64_t vpp) {
  if (n.only_stages > 0 && pp * vpp > 1) return pp * vpp == n.only_stages;
  return pp * vpp <= std::max<int64_t>(1, n.inner_parts);
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
