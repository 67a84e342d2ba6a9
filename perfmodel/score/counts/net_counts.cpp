#include "perfmodel/score/counts/net_counts.h"

#include <algorithm>

namespace isobar::perf {
namespace {

double matrices_of(const PublishedRun& r) {
  return r.arch == Arch::llama ? 3 : 2;
}

// Projections of attention
double attention_weights(const PublishedRun& r) {
  if (!r.latent.any()) return r.hidden * (2 * r.heads * r.head_dim + 2 * r.kv_heads * r.head_dim);
  const LatentSpec& l = r.latent;
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double q_rank = real(l.q_lora_rank), kv_rank = real(l.kv_lora_rank), v = real(l.v_head_dim);
  return r.hidden * q_rank + (q_rank > 0 ? q_rank : r.hidden) * r.heads * real(l.qk_head_dim()) +
         r.hidden * (kv_rank + real(l.qk_rope_head_dim)) +
         kv_rank * r.heads * (real(l.qk_nope_head_dim) + v) + r.heads * v * r.hidden;
}

}  // namespace

BlockWeights block_weights(const PublishedRun& r) {
  BlockWeights w;
  w.attention = attention_weights(r);
  const double moe = experts_of(r).share, matrix = matrices_of(r) * r.hidden;
  const double always = (1 - moe) * r.ffn + moe * r.shared_experts * r.expert_ffn;
  w.ffn = matrix * always + moe * r.experts * r.hidden;
  w.experts = moe * matrix * r.experts * r.expert_ffn;
  w.active = moe * matrix * r.top_k * r.expert_ffn;
  w.width = always + moe * r.top_k * r.expert_ffn;
  return w;
}

PlacedExperts experts_of(const PublishedRun& r) {
  PlacedExperts e;
  if (r.experts <= 0) return e;
  e.share = 1 - r.dense_layers / r.layers;
  // Megatron-Core cuts experts as it does all matrices, unless experts take more ranks than that leaves.
  e.tp = r.ep > r.dp * r.cp ? 1 : r.tp;
  e.replicas = std::max(1.0, r.dp * r.cp * r.tp / (e.tp * r.ep));
  e.rows = r.micro_batch * r.seq / r.cp * r.top_k * r.ep / r.experts * (e.tp / r.tp);
  return e;
}

OwnParameters own_parameters(const PublishedRun& r) {
  const BlockWeights w = block_weights(r);
  return {w.dense() / r.tp, r.experts > 0 ? w.experts / (r.ep * experts_of(r).tp) : 0};
}

double net_parameters(const PublishedRun& r) {
  const BlockWeights w = block_weights(r);
  return r.layers * (w.dense() + w.experts) + r.hidden * r.vocab * (r.arch == Arch::llama ? 2 : 1);
}

double logged_flops(const PublishedRun& r) {
  const BlockWeights block = block_weights(r);
  const double weights = r.layers * (block.dense() + block.active), q = r.heads * r.head_dim;
  return 6 * r.global_batch * r.seq * (weights + 2 * r.layers * r.seq * q + r.hidden * r.vocab);
}

}  // namespace isobar::perf
