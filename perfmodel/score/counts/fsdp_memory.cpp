#include "perfmodel/score/counts/fsdp_memory.h"

#include <algorithm>

#include "perfmodel/score/counts/net_counts.h"

namespace isobar::perf {
namespace {

/// Bytes that one block keeps of one micro-batch, and further ones during its backward pass.
struct Block {
  double input = 0;               // kept by a checkpoint
  double attention = 0, ffn = 0;  // with the norm before it
  double all() const { return attention + ffn; }
  double chosen = 0;                                // kept by selective recomputation
  double ffn_backward = 0, attention_backward = 0;  // gradients of activations
};

Block block_of(const PublishedRun& r, double tokens, double scale) {
  const bool llama = r.arch == Arch::llama;
  const double half = 2 * scale * tokens;  // one element of each token, in the type of products
  const double spread = r.sequence_parallel ? r.tp : 1;
  const double q = r.heads * r.head_dim / r.tp, kv = r.kv_heads * r.head_dim / r.tp,
               f = feed_forward_width(r) / r.tp;
  const bool apart = r.habits.norms_apart && !r.compiled && llama && scale == 1;
  Block b;
  b.input = half * r.hidden / spread;
  // A norm keeps its input; unfused, also in fp32 and its unweighted result. The next products keep their
  // input, gathered over tensor-parallel ranks.
  const double norm = (apart ? 3 : 1) * half * r.hidden / spread + half * r.hidden;
  // Attention's queries, keys and values (eager: repeated for all query heads), result and logsumexp.
  const bool repeated = llama && !r.compiled;
  b.attention = norm + half * (2 * q + (repeated ? 2 * q : 2 * kv)) + 4 * tokens * r.heads / r.tp;
  if (!is_fused(r.attention) && r.recompute == Recompute::none)
    b.attention += 5 * scale * r.micro_batch * r.heads / r.tp * r.seq * r.seq / r.cp;
  // Eager: the activation's input and result, the other factor, the product. Compiled: the input.
  b.ffn = norm + half * f * (llama ? (r.compiled ? 2 : 4) : r.compiled ? 1 : 2);
  // Every second product of q, k, v, o, and the feed-forward's two first and last, or of qkv, o and its two
  // (GPT). A product reduced over tensor-parallel ranks keeps its result before and after reduction.
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
  const double layer = own_parameters(r).all(), table = r.hidden * r.vocab / r.tp;
  const bool shared = r.arch == Arch::gpt && s.first && s.last;  // one table for both ends
  const double parameters = s.layers * layer + (s.first ? table : 0) + (s.last && !shared ? table : 0);
  const Block b = block_of(r, tokens, element / 2);
  const double head = s.last ? table : 0;

  // Activations of all blocks when the backward pass begins.
  const bool full = r.recompute == Recompute::full,
             some = r.recompute == Recompute::selective && r.habits.selective_operators;
  const double kept = full   ? r.recomputed * b.input + (1 - r.recomputed) * b.all()
                      : some ? b.chosen
                             : b.all();
  const double activations = (s.layers - std::min(s.layers - 1, r.offloaded_layers)) * kept * s.in_flight;
  const double kept_by_all = activations + (s.last ? 2 * b.input : 0);  // with the last norm's
  // Recomputed activations of the block in backward, beside its kept ones.
  const double again = full || some ? b.all() : 0;

  // Units and their gradients are in the type of products, reduced ones in fp32. With resharding a unit and
  // its neighbour are gathered at once; without it all units, until their backward.
  const bool reshards = r.zero >= 3 && r.pp <= 1;
  const double unit = element * layer, gradient = r.frozen_weights ? 0 : 1;
  const double reduce = 4 * gradient, share = 4 * gradient / shards;
  FsdpMemory m;
  m.states = (4 + 8 * gradient) * parameters / shards;

  // Under pipelines units stay gathered, and whole fp32 gradients are summed until the last micro-batch.
  const double summed = r.pp > 1 && r.micro_batches() > 1 ? reduce * parameters : 0;
  const bool eager = r.eager_loss;
  const double logits = s.last ? tokens * r.vocab / r.tp : 0;
  const double blocks = reshards ? 0 : unit * s.layers;  // gathered from forward to their backward
  // The embedding and the head: units of their own, or both in the root's, whose gradients come last.
  const bool root = r.habits.ends_in_root && s.first && s.last;
  const double tables = parameters - s.layers * layer;
  // Gathered and reduced buffers belong to other streams, and so to other pools of the allocator.
  double most = 0, computing = 0;
  const auto moment = [&](double bytes, double elsewhere = 0) {
    bytes += summed;
    most = std::max(most, bytes);
    computing = std::max(computing, bytes - elsewhere);
  };
  // The loss: logsumexp and both gradients in fp32, without the logits; fused: logits and their gradient. The
  // head is still gathered, or the last block, which is needed next.
  const double waits = !reshards ? element * tables : root ? unit : element * head;
  moment(kept_by_all + blocks + waits + logits * (eager ? 12 : 4));
  // The head's gradient and the last block's gather, then the head's reduction, for which the root is
  // gathered.
  const double next = reshards ? unit : 0, gathered = root || !reshards ? element * tables : element * head;
  if (root && reshards) moment(kept_by_all + unit + 2 * gathered + element * logits, gathered);
  moment(kept_by_all + blocks + gathered + next + element * logits + gradient * element * head, next);
  const double ends = root ? element * (tables + gradient * head) : reshards ? 0 : element * (tables - head);
  if (!root)
    moment(activations + blocks + ends + next + (gradient * element + reduce + share) * head,
           next + share * head);
  // Blocks from last to first: a unit and its neighbour, its gradients, and the previous one's reduction.
  // Activations shrink and gradient shares grow linearly, so the fullest is the last, the next or the first.
  const double feed = gradient * element * r.hidden * r.ffn / r.tp;
  const double work =
      std::max(again + b.ffn_backward + feed, again + b.attention_backward + gradient * unit - b.ffn);
  for (const double done : {0.0, 1.0, s.layers - 1}) {
    if (done < 0 || done >= s.layers) continue;
    const bool at_first = done == s.layers - 1;
    const double units = !reshards          ? blocks - (r.pp > 1 ? 0 : done * unit)
                         : !at_first        ? 2 * unit
                         : root || !s.first ? unit
                                            : unit + element * table;
    const double reduced = (root ? 0 : head) + done * layer;
    moment(activations - done * kept * s.in_flight + units + ends + work +
               reduce * (done > 0 ? layer
                         : root   ? 0
                                  : head) +
               share * reduced,
           (reshards ? units - unit : 0) + share * reduced);
  }
  // The embedding's gradient comes last, with the root's.
  if (s.first) {
    const double unsharded = root ? tables : table;
    moment(share * parameters + (gradient * element + reduce) * unsharded, share * parameters);
  }
  m.fullest = most;
  // Each pool reserves its own maximum: all gradient shares, the largest gathered buffers. Space of the
  // logits and the root's tables is reused by the next activations, so the larger of them is allocated again,
  // once, as replays of the allocator show.
  const double again_asked = std::max(element * logits, root && reshards ? element * tables : 0);
  const double buffers = shards > 1 ? element * (root ? tables : table) + unit : 0;
  m.reserved = std::max(most, computing + share * parameters + buffers) + again_asked;
  return m;
}

}  // namespace isobar::perf
