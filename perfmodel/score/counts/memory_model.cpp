#include "perfmodel/score/counts/memory_model.h"

#include <algorithm>
#include <cmath>

#include "model/base/nccl_resources.h"
#include "perfmodel/score/counts/fsdp_memory.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/score/prices/campaign_fit.h"

namespace isobar::perf {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr double kContext = 0.5 * kGiB;  // of CUDA, with the kernels' code

enum class MemoryPrice : int {
  gradients,   // relative to 4 bytes a parameter
  optimizer,   // relative to 12 bytes a parameter and shard: master weight, two moments
  stream,      // saved share of a layer's tensors on the residual stream
  attention,   // … of queries, keys, values and their result
  ffn,         // ... of the feed-forward part
  scores,      // ... of unfused attention
  checkpoint,  // relative to one layer input, under full recomputation
  working,     // relative to one layer's activations, while it is recomputed
  transient,   // gradients of activations, relative to one layer's activations
  logits,      // relative to 4 bytes a logit
  vocabulary,  // temporary gradient of the embedding, relative to 2 bytes a parameter
  runtime,     // bytes of context, libraries, communicators
  fragments,   // factor on activations
};

// In the order of MemoryPrice.
constexpr std::array<PriceInfo, 13> kMemoryInfo{{
    {"gradients", 0.8, 0.3, 0.3},
    {"optimizer", 1.0, 0.05, 0.1},
    {"stream", 1.0, 0.2, 0.2},
    {"attention", 1.0, 0.2, 0.2},
    {"ffn", 1.0, 0.15, 0.15},
    {"scores", 1.0, 0.15, 0.15},
    {"checkpoint", 1.0, 0.2, 0.3},
    {"working", 1.0, 0.4, 0.4},
    {"transient", 0.3, 0.7, 0.7},
    {"logits", 1.3, 0.4, 0.5},
    {"vocabulary", 0.7, 0.5, 0.6},
    {"runtime", 0.8 * kGiB, 0.8, 1.0},
    {"fragments", 1.04, 0.04, 0.05},
}};

/// Micro-batches in flight on a stage, in units of its layers.
double in_flight(const PublishedRun& r, double stage) {
  const double p = r.pp, m = r.micro_batches(), v = r.vpp;
  if (p <= 1) return 1;
  // Their schedules fill a limit that all stages have (Qi 2024, section 3.1).
  if (r.schedule == Schedule::zb_2p) return std::min(m, 2 * p);
  if (r.schedule == Schedule::zb_1p) return std::min(m, p);
  if (r.schedule == Schedule::interleaved || v > 1)  // chunks: 2 (p - s - 1) + (v - 1) p + 1 warm up
    return std::min(m, (2 * (p - stage - 1) + (v - 1) * p + 1) / v);
  return std::min(m, p - stage);
}

}  // namespace

MemoryCounts count_memory(const PublishedRun& r) {
  MemoryCounts out;
  const double T = r.micro_batch * r.seq / r.cp;
  const double q = r.heads * r.head_dim, kv = r.kv_heads * r.head_dim;
  const bool llama = r.arch == Arch::llama, full = r.recompute == Recompute::full;
  const double bytes = r.precision == Precision::fp32 || r.precision == Precision::tf32 ? 4 : 2;
  const double scale = bytes / 2;
  const double spread = r.sequence_parallel ? r.tp : 1;
  const double shards = r.zero >= 1 ? r.dp * r.cp : 1;
  const double gradient_shards = r.zero >= 2 ? r.dp * r.cp : 1, weight_shards = r.zero >= 3 ? r.dp * r.cp : 1;
  const OwnParameters layer = own_parameters(r);
  const PlacedExperts experts = experts_of(r);
  const NetCounts& net = count_net(r);
  // Under autocast norms keep their fp32 inputs, and linears a 2-byte copy of each input: of q, k, v and of
  // the feed-forward. If hand-written collectives break a compiled graph, norms' fp32 results and gathered
  // keys and values are also kept.
  const bool by_hand = r.habits.own_collectives && r.tp * r.cp > 1;
  // Transformer Engine keeps the operands of 8-bit products as such.
  const bool eight = r.precision == Precision::fp8 && !r.autocast;
  const double operand = eight ? 1 : 2;
  const double stream = r.autocast ? (by_hand && r.habits.compiled ? 24 : 16) : (llama ? 4 : 6) + 2 * operand;
  const double gathered = r.habits.own_collectives ? r.cp : 1;
  std::vector<double> stages{0};
  if (r.pp > 2) stages.push_back(1);
  if (r.pp > 1) stages.push_back(r.pp - 1);
  for (const double stage : stages) {
    StageMemory& s = out.stages.emplace_back();
    const bool first = stage == 0, last = stage == r.pp - 1;
    double layers = stage_layers(r);
    if (r.pp > 1 && (r.short_end_stages || r.balanced_embedding))
      layers -= first || last ? 1 : 0;
    else if (last && r.pp > 1)
      layers = std::max(1.0, r.layers - (r.pp - 1) * layers);
    if (r.habits.fully_sharded && r.zero >= 2 && !r.asked) {
      const FsdpMemory m = fsdp_memory(r, {layers, in_flight(r, stage), first, last});
      s.whole = m.states + m.reserved;
      continue;
    }
    const double table = r.hidden * r.vocab / r.tp;
    const double ends = r.asked ? net.first.dense + net.last.dense
                                : table * (!first && !last                   ? 0
                                           : r.pp > 1 || r.arch == Arch::gpt ? 1
                                                                             : 2);
    const double dense = layers * layer.dense + ends, of_experts = layers * layer.experts;
    const auto held = [&](double shards_of_dense) {  // experts have fewer replicas to be sharded over
      return dense / shards_of_dense + of_experts / (shards_of_dense > 1 ? experts.replicas : 1);
    };
    s.weights = bytes * held(weight_shards);
    const MemoryHabits& known = r.habits.memory;
    const double gradients = bytes == 4 ? 0 : r.fp16 ? known.fp16_gradients : known.bf16_gradients;
    if (!r.frozen_weights) {
      (gradients > 0 ? s.known : s.gradients) += (gradients > 0 ? gradients : 4) * held(gradient_shards);
      (known.optimizer > 0 ? s.known : s.optimizer) += (known.optimizer > 0 ? known.optimizer
                                                        : bytes == 4        ? 8
                                                                            : 12) *
                                                       held(shards);
    }
    if (r.dp * r.cp > 1) s.known += known.buckets;
    s.stream = T * r.hidden * stream * scale / spread;
    s.attention = T * (2 * (q + 2 * kv * gathered) + 2 * q + (eight ? q : 0)) * scale / r.tp;
    const double f = feed_forward_width(r);
    s.ffn = T * f * ((llama ? 4 : 2) + operand) * scale / r.tp;
    // Rows sorted by expert.
    const double sent = experts.share * r.top_k * r.hidden;
    s.ffn += T * sent * 2 * scale / r.tp;
    if (r.recompute == Recompute::selective && r.habits.selective_operators) {
      // Keeps the block's input and every second product's result: of q, v, the feed-forward's first and last
      // (Llama), of qkv and the first (GPT); and attention's.
      s.stream = T * r.hidden * (llama ? 4 : 2) * scale / spread;
      s.attention = T * (llama ? 4 * q + 2 * kv : 4 * q + 4 * kv) * scale / r.tp;
      s.ffn = T * f * 2 * scale / r.tp;
    }
    if (r.attention == AttentionKernel::unfused || r.attention == AttentionKernel::fused_softmax) {
      s.scores = 5 * r.micro_batch / r.cp / net.samples * net.block.forward.pairs * scale;
      s.scores_again = r.recompute == Recompute::selective;
    }
    s.checkpoint = full ? 2 * scale * T * r.hidden / spread : 0;
    if (r.asked) {
      const double samples = r.micro_batch / net.samples;
      s.exact = samples * net.block.saved;
      s.known += samples * (net.first.saved + net.last.saved);
      s.stream = s.attention = s.ffn = 0;
      s.checkpoint = full ? samples * net.block.entering : 0;
    } else if (r.autocast) {  // by operand, as autograd keeps them, without prices
      s.exact = s.stream + s.attention + s.ffn;
      s.stream = s.attention = s.ffn = 0;
    }
    s.kept_layers = std::max(1.0, layers - r.offloaded_layers) * in_flight(r, stage);
    s.recomputed = r.recomputed;
    if (known.stage_copies && r.pp > 1) s.checkpoint *= 1 + 2 / layers;
    // In 2 and 4 bytes, the loss's result and the gradient: three times a fused loss.
    s.logits = last ? 4 * T * r.vocab / r.tp * (r.eager_loss ? 3 : 1) : 0;
    // A layer and the next one in 2 bytes, and one's gradient in 2 and, for reduction, in 4.
    if (r.zero >= 3) s.gathered = 10 * layer.all();
    s.vocabulary = first || last ? 2 * table : 0;
  }
  if (r.habits.device_memory) {
    int64_t groups = r.gpus > 1 ? 1 : 0;  // the world
    for (const double n : {r.dp, r.tp, r.cp, r.pp}) groups += n > 1 ? 1 : 0;
    out.outside = kContext + static_cast<double>(nccl_buffer_bytes(groups));
  }
  return out;
}

namespace {

double peak_bytes_at(const MemoryCounts& m, const double* prices) {
  const auto p = [&](MemoryPrice x) { return prices[static_cast<size_t>(x)]; };
  double peak = 0;
  for (const StageMemory& s : m.stages) {
    if (s.whole) {
      peak = std::max(peak, *s.whole);
      continue;
    }
    const double persistent = s.weights + s.gradients * p(MemoryPrice::gradients) +
                              s.optimizer * p(MemoryPrice::optimizer) + s.gathered + s.known;
    const double scores = s.scores * p(MemoryPrice::scores);
    const double dense = s.stream * p(MemoryPrice::stream) + s.attention * p(MemoryPrice::attention) +
                         s.ffn * p(MemoryPrice::ffn) + s.exact;
    const double layer = dense + (s.scores_again ? 0 : scores);
    double activations = s.kept_layers * layer;
    double working = p(MemoryPrice::transient) * (dense + scores);
    if (s.checkpoint > 0) {
      activations = s.kept_layers *
                    (s.recomputed * s.checkpoint * p(MemoryPrice::checkpoint) + (1 - s.recomputed) * layer);
      working = p(MemoryPrice::working) * (dense + scores);
    }
    // The loss comes when every layer's activations exist; gradients of activations after the logits are
    // freed.
    const double top = std::max(s.logits * p(MemoryPrice::logits), working);
    peak = std::max(peak, persistent + (activations + top) * p(MemoryPrice::fragments) +
                              s.vocabulary * p(MemoryPrice::vocabulary));
  }
  return peak + p(MemoryPrice::runtime) + m.outside;
}

}  // namespace

double peak_bytes(const MemoryCounts& m) {
  std::array<double, kMemoryInfo.size()> spec;
  for (size_t i = 0; i < spec.size(); ++i) spec[i] = kMemoryInfo[i].spec;
  return peak_bytes_at(m, spec.data());
}

const Quantity kPeakBytes{
    kMemoryInfo.size(), kMemoryInfo.data(), 0.04, 1, 0, [](const Sample& s, const double* prices) {
      return std::log(peak_bytes_at(s.memory, prices));
    }};

}  // namespace isobar::perf
