#include "perfmodel/score/fsdp_memory.h"

#include <algorithm>

#include "perfmodel/score/step_model.h"

namespace isobar {
namespace {

/// Bytes that one block keeps of one micro-batch, and those that its backward pass has beside them.
struct Block {
  double input = 0;              // what a checkpoint keeps
  double attention = 0, ffn = 0;  // with the norm before it
  double all() const { return attention + ffn; }
  double chosen = 0;                             // kept by selective recomputation
  double ffn_backward = 0, attention_backward = 0;  // gradients of activations
};

Block block_of(const PublishedRun& r, double tokens, double scale) {
  const bool llama = r.arch == Arch::llama;
  const double half = 2 * scale * tokens;  // an element of each token in the type of products
  const double spread = r.sequence_parallel ? r.tp : 1;
  const double q = r.heads * r.head_dim / r.tp, kv = r.kv_heads * r.head_dim / r.tp, f = r.ffn / r.tp;
  const bool apart = r.habits.norms_apart && !r.compiled && llama && scale == 1;
  Block b;
  b.input = half * r.hidden / spread;
  // A norm keeps what it reads; taken apart, the same in fp32 and its result before the weight. The products
  // after it keep what they read, gathered over tensor-parallel ranks.
  const double norm = (apart ? 3 : 1) * half * r.hidden / spread + half * r.hidden;
  // Queries, keys and values as attention reads them (eager: repeated for all query heads), its result and
  // logarithms of sums.
  const bool repeated = llama && !r.compiled;
  b.attention = norm + half * (2 * q + (repeated ? 2 * q : 2 * kv)) + 4 * tokens * r.heads / r.tp;
  // Eager: what the activation reads and gives, the other factor, the product. Compiled: what it reads.
  b.ffn = norm + half * f * (llama ? (r.compiled ? 2 : 4) : r.compiled ? 1 : 2);
  // Every second product of q, k, v, o, the first two of the feed-forward part and its last, or of qkv, o and
  // its two (GPT): what reduces over tensor-parallel ranks keeps its whole result, and that once reduced too.
  const double reduced = r.tp > 1 ? half * r.hidden / spread : 0;
  b.chosen = b.input + half * (q + (llama ? q + kv : q + 2 * kv)) + 4 * tokens * r.heads / r.tp + half * f +
             (llama ? half * r.hidden : 0) + 2 * reduced;
  b.ffn_backward = half * (r.hidden + (llama ? 2 : 1) * f);
  b.attention_backward = half * (r.hidden + 4 * q);
  return b;
}

}  // namespace

FsdpMemory fsdp_memory(const PublishedRun& r, const FsdpStage& s) {
  const double element = r.precision == Precision::fp32 || r.precision == Precision::tf32 ? 4 : 2;
  const double tokens = r.micro_batch * r.seq / r.cp, shards = r.dp * r.cp;
  const double layer = layer_parameters(r) / r.tp, table = r.hidden * r.vocab / r.tp;
  const bool shared = r.arch == Arch::gpt && s.first && s.last;  // one table for both ends
  const double parameters = s.layers * layer + (s.first ? table : 0) + (s.last && !shared ? table : 0);
  const Block b = block_of(r, tokens, element / 2);
  const double head = s.last ? table : 0;

  // Activations of all blocks when the backward pass begins.
  const bool full = r.recompute == Recompute::full, some = r.recompute == Recompute::selective;
  const double kept = full ? r.recomputed * b.input + (1 - r.recomputed) * b.all() : some ? b.chosen : b.all();
  const double activations = (s.layers - std::min(s.layers - 1, r.offloaded_layers)) * kept * s.in_flight;
  const double norm_out = s.last ? 2 * b.input : 0;
  // Of the block whose backward pass runs: what is computed again, beside what of it was kept.
  const double again = full || some ? b.all() : 0;

  // Units in the type of products, their gradients alike; what is reduced in fp32. With resharding a unit and
  // its neighbour's gathered buffer are there; without it all units, until their backward pass.
  const bool reshards = r.zero >= 3 && r.pp <= 1;
  const double unit = element * layer, ends = element * head, gradient = r.frozen_weights ? 0 : 1;
  const double reduce = 4 * gradient, share = 4 * gradient / shards;
  FsdpMemory m;
  m.states = (4 + 8 * gradient) * parameters / shards;

  const double logits = tokens * r.vocab / r.tp * (s.last ? 1 : 0);
  const double gathered = reshards ? ends : element * parameters;
  double most = 0;
  const auto moment = [&](double bytes) { most = std::max(most, bytes); };
  const double there = activations + norm_out;
  // The loss: logarithms of the softmax and gradients of both in fp32, when the logits are gone; fused, logits
  // and their gradient.
  moment(there + gathered + logits * (r.habits.eager_loss && !r.compiled ? 12 : 4));
  // The head's gradient, then what is reduced of it, while the last block is on its way.
  const double next = reshards ? unit : 0;
  const double blocks = reshards ? 0 : element * (parameters - head);
  moment(there + gathered + next + 2 * logits + gradient * ends);
  moment(activations + blocks + next + gradient * ends + reduce * head);
  // Blocks from the last to the first: a unit's gradients and what is reduced of the one before. Activations
  // go and shares of gradients come evenly, so the fullest is the last, the one after it or the first.
  const double feed = 2 * r.hidden * r.ffn / r.tp * (element / 2);
  const double work = std::max(again + b.ffn_backward + gradient * feed,
                               again + b.attention_backward + gradient * unit - b.ffn);
  const double units = reshards ? 2 * unit : 0;
  for (const double done : {0.0, 1.0, s.layers - 1}) {
    if (done >= s.layers) continue;
    const double pending = done < 1 ? reduce * head : reduce * layer;
    const double held = activations - done * kept * s.in_flight;
    const double whole = reshards ? units : blocks - done * unit;
    const double nearby = reshards && done == s.layers - 1 && s.first ? element * table - unit : 0;
    moment(held + whole + std::max(0.0, nearby) + work + pending + share * (head + done * layer));
  }
  // The embedding's gradient last.
  if (s.first)
    moment(share * (parameters - table) + (gradient * element + reduce) * table + share * table);
  m.fullest = most;
  return m;
}

}  // namespace isobar
