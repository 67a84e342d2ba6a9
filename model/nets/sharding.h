// What one rank holds of the activations: which tokens of which rows, with whom it shares them.
//
//   Sharding at(builder, spec, rank, tokens);
//   Sharding coarse = at.with_tokens(tokens / 4);   // of the same ranks
//   at.rows        // rows of the residual stream on this rank
//   at.full_rows   // rows that the linears inside attention and MLP work on
//
// Context parallelism cuts each sample's tokens (evenly, unless a net says how); tensor
// parallelism with sequence parallelism (Korthikanti 2022) cuts the remaining batch * tokens rows of the
// residual stream once more.
#pragma once
#include <vector>

#include "model/base/spec.h"
#include "model/plan/builder.h"
#include "model/plan/layout.h"

namespace isobar {

/// Axes that each group of a rank spans.
struct GroupAxes {
  const char *tp, *cp, *samples, *whole;
  const char *cut, *partial;  // where tp > 1; of adapters, without sequence parallelism
  const char *norm, *metrics;
};
/// `sequence`: sequence parallelism is on; `sharded`: ZeRO of any stage.
GroupAxes group_axes(bool sequence, bool sharded);

/// Groups of two ranks and more that the rank with most of them is in: those above, and the pairs of a
/// pipeline's neighbours, of one direction each (stages.h). A tied embedding's is not counted. `wraps`:
/// interleaved chunks, whose last stage sends to the first; `adapters`: there are some.
int64_t most_groups(int64_t dp, int64_t tp, int64_t cp, int64_t pp, bool sequence, bool sharded, bool wraps,
                    bool adapters = false);

struct Sharding {
  /// `tokens`: of a sample.
  Sharding(Builder& b, const RunSpec& spec, int rank, int64_t tokens);
  Sharding with_tokens(int64_t tokens) const;
  /// `parts`: tokens of each rank of context parallelism.
  Sharding with_parts(std::vector<int64_t> parts) const;

  Coords at;
  int64_t tp, cp, pp;
  bool sequence;                     // sequence parallelism is on (and tp > 1)
  int64_t batch;                     // B: samples of a micro-batch
  int64_t token0, tokens;            // of each sample: this rank's first token, how many
  std::vector<int64_t> token_parts;  // tokens of every cp rank
  int64_t full_rows;                 // B * tokens
  int64_t row0, rows;                // of them, this rank's part of the residual stream
  std::vector<int64_t> row_parts;    // rows of every tp rank under sequence parallelism

  // Groups of the plan; -1 where this rank would be alone.
  int tp_group = -1, cp_group = -1;
  int sample_group = -1;   // ranks that hold rows of the same samples: they add up the loss
  int whole_group = -1;    // gradients of what tensor parallelism leaves whole: summed over …
  int cut_group = -1;      // … and of what it cuts
  int partial_group = -1;  // … and of what it leaves whole, but is multiplied by a part: adapters have some
  int norm_group = -1;     // ranks that answer for other parameters: they add up the gradient norm
  int metrics_group = -1;  // ranks with other samples, and stages without any

  // Of ranks that hold the same values one counts their gradients in the norm, and one writes them to
  // checkpoints: of what tensor parallelism leaves whole the first; without ZeRO's shards those that differ
  // by samples and tokens only are replicas and take tensors by turns (declare.cpp).
  bool counts_whole, counts_partial;
  int64_t replicas, replica;  // 1, 0: nobody else holds this rank's shards
  int64_t copies, copy;       // of what every rank keeps whole, whatever ZeRO's stage

  std::vector<int64_t> row_elements(int64_t width) const;  // parts of a tp gather of [full_rows, width]

 private:
  void cut(std::vector<int64_t> parts);
};

}  // namespace isobar
