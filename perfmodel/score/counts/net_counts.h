// Parameters of a published net's block, averaged over its blocks, and where its experts lie.
//
//   BlockWeights w = block_weights(run);
//   w.dense() + w.experts          // of a block, all of them
//   w.dense() + w.active           // those that a token uses
//   PlacedExperts e = experts_of(run);   // rows of an expert's products, replicas of its weights
//
// Latent attention: DeepSeek-V2, arXiv 2405.04434, equations 9 to 19. Experts: Megatron-Core MoE, arXiv
// 2504.14960.
#pragma once
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

struct BlockWeights {
  double attention = 0;  // projections
  double ffn = 0;        // dense feed-forward, shared experts, router
  double experts = 0;    // all routed experts
  double active = 0;     // the share of `experts` that a token uses
  double width = 0;      // hidden units of feed-forward that a token passes
  double dense() const { return attention + ffn; }
};
BlockWeights block_weights(const PublishedRun& run);

struct PlacedExperts {
  double share = 0;     // of the layers that have experts
  double tp = 1;        // ranks that an expert's matrices are cut over
  double replicas = 1;  // data-parallel copies of an expert
  double rows = 0;      // of an expert's product, of one micro-batch, with routing in balance
};
PlacedExperts experts_of(const PublishedRun& run);

/// Parameters of one layer on one rank, of which `experts` have fewer replicas, and of the fullest stage.
struct OwnParameters {
  double dense = 0, experts = 0;
  double all() const { return dense + experts; }
};
OwnParameters own_parameters(const PublishedRun& run);

/// Parameters of the whole net.
double net_parameters(const PublishedRun& run);

/// FLOPs of a step without recomputation, as in Megatron-LM's log: attention without causal savings.
double logged_flops(const PublishedRun& run);

}  // namespace isobar::perf
