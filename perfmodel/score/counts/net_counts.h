// The work of a published run's net on one of its tensor-parallel ranks, from the plan of the same net
// (layouts/sections.h), without recomputation and with fused attention: what engines do otherwise is counted
// from it (step_model.h, memory_model.h).
//
//   const NetCounts& n = count_net(run);
//   n.block.forward.products                // FLOPs of a sample in the mean of its blocks
//   PlacedExperts e = experts_of(run);      // rows of an expert's products, replicas of its weights
//
// Experts are placed as in Megatron-Core MoE, arXiv 2504.14960.
#pragma once
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

/// One pass on a rank.
struct PassCounts {
  double products = 0, weight_gradients = 0;        // FLOPs of dense products; those of them
  double experts = 0, expert_weight_gradients = 0;  // of grouped products, likewise
  double attention = 0;                             // FLOPs, without what a mask hides
  double padded = 0;                                // the same with heads padded to 32, 64, 96 ...
  double scores = 0, queries = 0;                   // pairs that no mask hides, of all heads; their queries
  double pairs = 0, unmasked = 0;      // queries times keys, of all heads; FLOPs with all of them
  double per_width = 0, per_row = 0;   // FLOPs of dense products over their narrower matrix side, and rows
  double bytes = 0;                    // operands of all other ops, each once
  double sorted = 0;                   // of rows sorted by expert and back
  double reductions = 0, reduced = 0;  // over tensor-parallel ranks, and their bytes
  double launches = 0;                 // ops
};
struct PartCounts {
  PassCounts forward, backward;
  double dense = 0, experts = 0;   // parameters on a rank; of experts that `ep` divides
  double saved = 0, entering = 0;  // bytes that Isobar's engine saves for the backward pass; and its input's
};
struct NetCounts {
  double samples = 1;             // in which the passes' FLOPs and bytes are
  PartCounts first, block, last;  // block: the mean of all
  double tied = 0;                // parameters of the first that the last also reads
};
/// Throws ConfigError for a net or cut that no plan has. The reference stays valid.
const NetCounts& count_net(const PublishedRun& run);

struct PlacedExperts {
  double share = 0;     // of the layers that have experts
  double tp = 1;        // ranks that an expert's matrices are cut over
  double replicas = 1;  // data-parallel copies of an expert
  double rows = 0;      // of an expert's product, of one micro-batch, with routing in balance
};
PlacedExperts experts_of(const PublishedRun& run);

/// Parameters of one layer on one rank, of which `experts` have fewer replicas.
struct OwnParameters {
  double dense = 0, experts = 0;
  double all() const { return dense + experts; }
};
OwnParameters own_parameters(const PublishedRun& run);

/// Hidden units of feed-forward that a token passes in a block.
double feed_forward_width(const PublishedRun& run);

/// Parameters of the whole net.
double net_parameters(const PublishedRun& run);
/// Those of its ends, and of its blocks' products that a token passes.
double used_parameters(const PublishedRun& run);

/// FLOPs of a step without recomputation: products, attention without what a mask hides, the vocabulary.
double model_flops(const PublishedRun& run);
/// The same as in Megatron-LM's log: attention without causal savings.
double logged_flops(const PublishedRun& run);

}  // namespace isobar::perf
