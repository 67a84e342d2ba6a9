#include "perfmodel/score/counts/net_counts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "perfmodel/layouts/sections.h"
#include "perfmodel/layouts/stage_kinds.h"
#include "perfmodel/score/published/published_spec.h"

namespace isobar::perf {
namespace {

using plan::OpKind;

void add_product(const SectionOp& op, double times, PassCounts& to) {
  const double flops = times * op.one.work.flops;
  const bool grouped = op.one.kind == OpKind::grouped_gemm;
  (grouped ? to.experts : to.products) += flops;
  if (op.weight) (grouped ? to.expert_weight_gradients : to.weight_gradients) += flops;
  if (!grouped) to.per_width += flops / std::min(op.one.n, op.one.k);
}

void add_attention(const OpShape& op, double times, PassCounts& to) {
  const double pairs = op.batch * op.heads * op.tq * op.tk;
  to.attention += times * op.work.flops;
  to.pairs += times * pairs;
  to.unmasked += times * op.work.flops * pairs / op.work.vector_flops;
}

void add_op(const SectionOp& op, double times, PassCounts& to) {
  const OpShape& s = op.one;
  if (op.lane == plan::Lane::tp && (s.kind == OpKind::all_reduce || s.kind == OpKind::reduce_scatter)) {
    to.reductions += times;  // a scatter together with the gather before it
    to.reduced += times * s.bytes;
  }
  if (op.lane != plan::Lane::compute) return;
  if (s.price == plan::PriceClass::product)
    add_product(op, times, to);
  else if (s.price == plan::PriceClass::attention || s.price == plan::PriceClass::attention_backward)
    add_attention(s, times, to);
  else
    (s.kind == OpKind::dispatch || s.kind == OpKind::combine ? to.sorted : to.bytes) +=
        times * s.work.bytes();
}

void add_part(const PartSections& part, double times, PartCounts& to) {
  for (const SectionOp& op : part.forward) add_op(op, times, to.forward);
  for (const SectionOp& op : part.backward) add_op(op, times, to.backward);
  to.experts += times * part.parameters.expert;
  to.dense += times * (part.parameters.all() - part.parameters.expert);
}

NetCounts counts_of(const RunSpec& spec, const SectionKey& cut) {
  SectionCache cache(spec);
  const NetSections& sections = cache.of(cut);
  const NetParts parts(spec.net);
  NetCounts n;
  n.tied = sections.tied;
  add_part(sections.parts[parts.part.front()], 1, n.first);
  add_part(sections.parts[parts.part.back()], 1, n.last);
  for (const PartCount& c : parts.counts)
    if (c.inner > 0)
      add_part(sections.parts[c.part], c.inner / static_cast<double>(spec.net.blocks()), n.block);
  return n;
}

/// Ranks that share a sample's work.
struct Cut {
  double tp = 1, ep = 1;
  bool sequence_parallel = false;
};

/// All that counts depend on.
using NetKey = std::array<double, 22>;
NetKey key_of(const PublishedRun& r, const Cut& cut) {
  const auto real = [](auto n) { return static_cast<double>(n); };
  return {real(r.arch),
          r.layers,
          r.hidden,
          r.ffn,
          r.heads,
          r.kv_heads,
          r.head_dim,
          r.vocab,
          r.seq,
          r.experts,
          r.top_k,
          r.expert_ffn,
          r.shared_experts,
          r.dense_layers,
          real(r.latent.q_lora_rank),
          real(r.latent.kv_lora_rank),
          real(r.latent.qk_head_dim()),
          real(r.latent.v_head_dim),
          cut.tp,
          cut.ep,
          real(cut.sequence_parallel),
          real(r.precision <= Precision::tf32)};
}

struct HashOfKey {
  size_t operator()(const NetKey& key) const {
    size_t hash = 0;
    for (const double x : key) hash = hash * 0x9e3779b97f4a7c15 + std::hash<double>()(x);
    return hash;
  }
};

NetCounts planned(const PublishedRun& r, const Cut& cut) {
  RunSpec spec;
  spec.net = net_of(r);
  spec.policy.amp = r.precision <= Precision::tf32 ? Amp::none : Amp::bf16;
  spec.policy.attention = AttentionKind::flash;
  return counts_of(
      spec,
      {.tp = std::llround(cut.tp), .sequence_parallel = cut.sequence_parallel, .ep = std::llround(cut.ep)});
}

const NetCounts& count_cut(const PublishedRun& r, const Cut& cut) {
  static std::shared_mutex mutex;
  static std::unordered_map<NetKey, std::unique_ptr<const NetCounts>, HashOfKey> known;
  const NetKey key = key_of(r, cut);
  {
    const std::shared_lock lock(mutex);
    if (const auto n = known.find(key); n != known.end()) return *n->second;
  }
  auto counted = std::make_unique<const NetCounts>(planned(r, cut));
  const std::unique_lock lock(mutex);
  return *known.try_emplace(key, std::move(counted)).first->second;
}

}  // namespace

const NetCounts& count_net(const PublishedRun& r) {
  return count_cut(r, {r.tp, r.ep, r.sequence_parallel && r.tp > 1});
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
  const PartCounts& block = count_net(r).block;
  return {block.dense, block.experts * (r.experts > 0 ? r.tp / experts_of(r).tp : 1)};
}

double feed_forward_width(const PublishedRun& r) {
  const double moe = experts_of(r).share;
  return (1 - moe) * r.ffn + moe * (r.shared_experts + r.top_k) * r.expert_ffn;
}

namespace {

double flops_of(const PassCounts& p, bool masked) {
  return p.products + p.experts + (masked ? p.attention : p.unmasked);
}

}  // namespace

double net_parameters(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  return n.first.dense + r.layers * n.block.dense + n.last.dense;
}

double model_flops(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  PassCounts block = n.block.forward;
  block.attention *= r.attended / r.seq;
  return (r.frozen_weights ? 2 : 3) * r.global_batch *
         (r.layers * flops_of(block, true) + flops_of(n.last.forward, true));
}

double logged_flops(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  return 3 * r.global_batch * (r.layers * flops_of(n.block.forward, false) + flops_of(n.last.forward, false));
}

}  // namespace isobar::perf
