// One rank's part of the activations: its tokens and rows, and the groups that share them.
//
//   Sharding at(builder, spec, rank, tokens);
//   Sharding coarse = at.with_tokens(tokens / 4);   // of the same ranks
//   at.rows        // rows of the residual stream on this rank
//   at.full_rows   // rows inside attention and MLP
//
// Context parallelism cuts each sample's tokens (evenly, unless a net defines the parts): into neighbours,
// or, for causal attention by rings or gathered keys, into a half from the sample's begin and one from its
// end, whose queries see as many keys as another rank's ("zig-zag", Zhu 2024). Tensor parallelism with
// sequence parallelism (Korthikanti 2022) further cuts the batch * tokens rows of the residual stream.
#pragma once
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/builder.h"
#include "model/plan/layout.h"

namespace isobar::nets {

/// True if cut operands multiply whole parameters, whose gradients are then partial sums: adapters, routers
/// of experts, norms of heads, and latents of attention.
bool has_partial(const RunSpec& spec);

/// Most groups of at least two ranks that any rank is in: those above, and one per direction with each
/// neighbour in a pipeline (stages.h); a tied embedding's is not counted. `wraps`: interleaved chunks, whose
/// last stage sends to the first; `partial`: see has_partial; `ep` adds those of experts.
int64_t most_groups(int64_t dp, int64_t tp, int64_t cp, int64_t pp, bool sequence, bool sharded, bool wraps,
                    bool partial = false, int64_t ep = 1);

struct Sharding {
  /// `tokens`: of a sample.
  Sharding(plan::Builder& b, const RunSpec& spec, int rank, int64_t tokens);
  Sharding with_tokens(int64_t tokens) const;
  /// `parts`: tokens of each rank of context parallelism.
  Sharding with_parts(std::vector<int64_t> parts) const;

  plan::Coords at;
  int64_t tp, cp, pp, ep;
  int64_t owner;                      // of ep
  bool sequence;                      // sequence parallelism is on (and tp > 1)
  int64_t batch;                      // B: samples of a micro-batch
  int64_t token0, tokens;             // of each sample: this rank's first token, and count
  std::vector<int64_t> token_parts;   // tokens of every cp rank
  std::vector<TokenRuns> token_runs;  // which they are
  int64_t full_rows;                  // B * tokens
  int64_t row0, rows;                 // this rank's part of them in the residual stream
  std::vector<int64_t> row_parts;     // rows of every tp rank under sequence parallelism

  // Groups of the plan; -1 if this rank would be alone.
  int tp_group = -1, cp_group = -1;
  int sample_group = -1;   // ranks with rows of the same samples: they sum the loss
  int whole_group = -1;    // sums gradients of parameters that tensor parallelism leaves whole
  int cut_group = -1;      // sums those of parameters that it cuts
  int partial_group = -1;  // sums those of whole parameters with partial gradients (has_partial)
  int ep_group = -1;       // ranks that divide the experts
  int expert_group = -1;   // sums gradients of a rank's experts, if ep > 1
  int norm_group = -1;     // ranks with other parameters: they sum the gradient norm
  int metrics_group = -1;  // ranks with other samples, and stages without any

  // Among ranks with the same values one counts their gradients in the norm, and one writes them to
  // checkpoints. For parameters that tensor parallelism leaves whole it is the first; ranks that differ only
  // by samples and tokens are replicas without ZeRO, and share the writing (declare.cpp).
  bool counts_whole, counts_partial;
  bool counts_common;                  // of parameters that expert parallelism does not divide
  int64_t replicas, replica;           // 1, 0: no other rank holds this rank's shards
  int64_t copies, copy;                // of parameters that every rank keeps whole, at any ZeRO stage
  int64_t expert_copies, expert_copy;  // likewise of its experts

  const TokenRuns& runs() const { return token_runs[at.cp]; }  // this rank's tokens
  std::vector<int64_t> row_elements(int64_t width) const;      // parts of a tp gather of [full_rows, width]

 private:
  void cut(std::vector<int64_t> parts);
  const bool zig_zag_;
};

}  // namespace isobar::nets
