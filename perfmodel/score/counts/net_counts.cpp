#include "perfmodel/score/counts/net_counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/base/spec/settings_of_others.h"
#include "perfmodel/layouts/sections.h"
#include "perfmodel/layouts/stage_kinds.h"
#include "perfmodel/score/published/published_spec.h"

namespace isobar::perf {
namespace {

using plan::OpKind;

void add_product(const OpShape& op, bool weight, double times, PassCounts& to) {
  const double flops = times * op.work.flops;
  const bool grouped = op.kind == OpKind::grouped_gemm;
  (grouped ? to.experts : to.products) += flops;
  if (weight) (grouped ? to.expert_weight_gradients : to.weight_gradients) += flops;
  if (grouped) return;
  to.per_width += flops / std::min(op.n, op.k);
  to.per_row += flops / op.m;
}

void add_attention(const OpShape& op, double times, PassCounts& to) {
  constexpr double kLanes = 32;  // flash kernels pad heads to a multiple
  const double flops = times * op.work.flops, pairs = op.batch * op.heads * op.tq * op.tk;
  to.attention += flops;
  to.padded += flops * std::ceil(op.d / kLanes) * kLanes / op.d;
  to.scores += times * op.work.vector_flops;
  to.queries += times * op.batch * op.heads * op.tq;
  to.pairs += times * pairs;
  to.unmasked += flops * pairs / op.work.vector_flops;
}

void add_op(const SectionOp& op, const OpShape& s, double times, PassCounts& to) {
  if (op.lane == plan::Lane::tp && (s.kind == OpKind::all_reduce || s.kind == OpKind::reduce_scatter)) {
    to.reductions += times;  // a scatter together with the gather before it
    to.reduced += times * s.bytes;
  }
  if (op.lane != plan::Lane::compute) return;
  to.launches += times;
  if (s.price == plan::PriceClass::product)
    add_product(s, op.weight, times, to);
  else if (s.price == plan::PriceClass::attention || s.price == plan::PriceClass::attention_backward)
    add_attention(s, times, to);
  else
    (s.kind == OpKind::dispatch || s.kind == OpKind::combine ? to.sorted : to.bytes) +=
        times * s.work.bytes();
}

/// A part with this number of samples: its counts are linear between the sections' two plans.
void add_part(const NetSections& n, int32_t part, double samples, double times, PartCounts& to) {
  const PartSections& p = n.parts[static_cast<size_t>(part)];
  const double x = (samples - n.one) / (n.two - n.one);
  const auto add = [&](const Section& section, PassCounts& pass) {
    for (const SectionOp& op : section) {
      add_op(op, op.one, times * (1 - x), pass);
      add_op(op, op.two, times * x, pass);
    }
  };
  add(p.forward, to.forward);
  add(p.backward, to.backward);
  to.saved += times * p.saved.at(samples);
  to.experts += times * p.parameters.expert;
  to.dense += times * (p.parameters.all() - p.parameters.expert);
}

/// Bytes of the streams that the first of these equal parts receives.
double entering_of(const NetSections& sections, const NetParts& parts, int32_t part, double samples) {
  for (size_t i = 1; i < parts.part.size(); ++i)
    if (parts.part[i] == part) return sections.crossing[static_cast<size_t>(parts.cut_like[i])].at(samples);
  return 0;
}

NetCounts counts_of(const RunSpec& spec, const SectionKey& cut, double samples) {
  SectionCache cache(spec);
  const NetSections& sections = cache.of(cut);
  const NetParts parts(spec.net);
  NetCounts n;
  n.samples = samples;
  n.tied = sections.tied;
  add_part(sections, parts.part.front(), samples, 1, n.first);
  add_part(sections, parts.part.back(), samples, 1, n.last);
  const auto blocks = static_cast<double>(std::max<int64_t>(1, spec.net.blocks()));
  for (const PartCount& c : parts.counts) {
    if (c.inner == 0) continue;
    add_part(sections, c.part, samples, c.inner / blocks, n.block);
    n.block.entering += c.inner / blocks * entering_of(sections, parts, c.part, samples);
  }
  return n;
}

/// Ranks that share a sample's work.
struct Cut {
  double tp = 1, ep = 1;
  bool sequence_parallel = false;
};

/// Work that rows describe is proportional to samples; some nets have constant work, as of a graph's edges.
double samples_of(const PublishedRun& r) {
  return r.asked ? r.micro_batch : 1;
}

/// All that counts depend on.
using NetNumbers = std::array<double, 23>;
using NetKey = std::pair<NetNumbers, std::string>;
NetNumbers numbers_of(const PublishedRun& r, const Cut& cut) {
  const auto real = [](auto n) { return static_cast<double>(n); };
  return {cut.tp,  // what differs between a row's cuts comes first
          cut.ep,
          real(cut.sequence_parallel),
          samples_of(r),
          real(r.arch),
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
          real(r.precision <= Precision::tf32)};
}

struct HashOfKey {
  size_t operator()(const NetKey& key) const {
    const std::string_view numbers(reinterpret_cast<const char*>(key.first.data()), sizeof key.first);
    return std::hash<std::string_view>()(numbers) ^ std::hash<std::string>()(key.second);
  }
};

NetCounts planned(const PublishedRun& r, const Cut& cut) {
  RunSpec spec = r.asked ? r.asked->spec : RunSpec{};
  if (!r.asked) spec.net = net_of(r);
  spec = without_settings_of_others(std::move(spec));  // the run has them
  spec.file = r.id;
  spec.policy.amp = r.precision <= Precision::tf32 ? Amp::none : Amp::bf16;
  spec.policy.attention = AttentionKind::flash;
  const SectionKey key{
      .tp = std::llround(cut.tp), .sequence_parallel = cut.sequence_parallel, .ep = std::llround(cut.ep)};
  return counts_of(spec, key, samples_of(r));
}

const NetCounts& counted_or_known(const PublishedRun& r, const Cut& cut, const NetKey& key,
                                  std::string_view& kept_text) {
  static std::shared_mutex mutex;
  static std::unordered_map<NetKey, std::unique_ptr<const NetCounts>, HashOfKey> known;
  const auto found = [&](const auto& one) -> const NetCounts& {
    kept_text = one.first.second;
    return *one.second;
  };
  {
    const std::shared_lock lock(mutex);
    if (const auto n = known.find(key); n != known.end()) return found(*n);
  }
  auto counted = std::make_unique<const NetCounts>(planned(r, cut));
  const std::unique_lock lock(mutex);
  return found(*known.try_emplace(key, std::move(counted)).first);
}

// A row is asked for thousands of times in turn, in a few cuts: a thread keeps its latest at hand.
const NetCounts& count_cut(const PublishedRun& r, const Cut& cut) {
  struct Recent {
    NetNumbers numbers;
    std::string_view text;
    const NetCounts* counts = nullptr;
  };
  thread_local std::array<Recent, 16> recent;
  thread_local size_t latest = 0;
  const NetNumbers numbers = numbers_of(r, cut);
  const std::string_view text = r.asked ? std::string_view(r.asked->text) : std::string_view();
  for (size_t i = 0; i < recent.size(); ++i) {
    const size_t at = (latest + i) % recent.size();
    if (!recent[at].counts || recent[at].numbers != numbers || recent[at].text != text) continue;
    latest = at;
    return *recent[at].counts;
  }
  latest = (latest + recent.size() - 1) % recent.size();
  Recent& one = recent[latest];
  one.counts = &counted_or_known(r, cut, {numbers, std::string(text)}, one.text);
  one.numbers = numbers;
  return *one.counts;
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

double net_parameters(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  return n.first.dense + r.layers * n.block.dense + n.last.dense;
}

double used_parameters(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  const PassCounts& block = n.block.forward;
  return n.first.dense + r.layers * (block.products + block.experts) / (2 * r.seq * n.samples) + n.last.dense;
}

namespace {

double flops_of(const PassCounts& p, bool masked) {
  return p.products + p.experts + (masked ? p.attention : p.unmasked);
}

}  // namespace

double model_flops(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  PassCounts block = n.block.forward;
  block.attention *= r.attended / r.seq;
  return (r.frozen_weights ? 2 : 3) * r.global_batch / n.samples *
         (r.layers * flops_of(block, true) + flops_of(n.last.forward, true));
}

double logged_flops(const PublishedRun& r) {
  const NetCounts& n = count_cut(r, {});
  return 3 * r.global_batch / n.samples *
         (r.layers * flops_of(n.block.forward, false) + flops_of(n.last.forward, false));
}

}  // namespace isobar::perf
