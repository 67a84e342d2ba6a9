// Memory of the fullest stage, as placed by model/plan/place.cpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "model/base/nccl_resources.h"
#include "model/nets/layout/sharding.h"
#include "model/nets/traced/eager_memory.h"
#include "model/plan/schedule.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar::perf {
namespace {

// Micro-batches in flight of each chunk of a stage; constant once the pipeline is full.
const std::vector<int64_t>& slots_of(PipelineSchedule kind, int p, int stage, int64_t m, int v) {
  using Key = std::tuple<PipelineSchedule, int, int, int64_t, int>;
  thread_local std::map<Key, std::vector<int64_t>> known;
  m = std::min<int64_t>(m, 4 * p);
  auto& slots = known[{kind, p, stage, m, v}];
  if (slots.empty())
    slots = plan::in_flight(plan::schedule_actions(kind, p, stage, static_cast<int>(m), v), v);
  return slots;
}

}  // namespace

// Bytes in all slots of a stage's chunks. Under full recomputation a group's first part saves its input and
// the others nothing; parts that are not recomputed save all.
double LayoutModel::saved_of(const Layout& l, const StageKind& s, const NetSections& n) {
  const double b = l.micro_batch, m = micro_batches(l);
  const bool full = l.recompute == Recompute::full, split = l.schedule == PipelineSchedule::zb_h1;
  SectionKey kept = sections_key(l);
  kept.recompute = Recompute::none;
  double all = 0;
  for (const StageChunk& c : s.chunks) {
    double bytes = 0;
    for (const PartRun& r : c.runs) {
      const PartSections& part = n.parts[r.part];
      bytes += (r.count - (full ? r.whole + r.grouped : 0)) * part.saved.at(b);
      if (full && r.whole > 0) bytes += r.whole * cache_->of(kept).parts[r.part].saved.at(b);
      if (split) bytes += r.count * part.split.at(b);
    }
    double slots = c.times * std::min<double>(m, l.pp - s.stage);
    if (l.schedule == PipelineSchedule::gpipe) slots = c.times * m;
    if (rolls())
      slots = static_cast<double>(plan::rolling_together(l.schedule, l.pp, static_cast<int64_t>(m)) *
                                  spec_.learnt_steps());
    if (l.schedule == PipelineSchedule::interleaved || split) {
      const auto& each = slots_of(l.schedule, l.pp, s.stage, static_cast<int64_t>(m), l.vpp);
      slots = 0;
      for (int i = 0; i < static_cast<int>(c.times); ++i) slots += static_cast<double>(each[c.chunk + i]);
    }
    all += slots * bytes;
  }
  return all;
}

// A group's parts are all recomputed before its backward begins; the counted plan's group is all parts
// between the net's ends.
double LayoutModel::scratch_of(const Layout& l, const StageKinds& stages, const NetSections& n) {
  const double b = l.micro_batch, single = n.scratch.at(b);
  const bool some = spec_.policy.recompute_method == RecomputeMethod::block;
  if (l.recompute != Recompute::full || (!some && spec_.policy.recompute_num_layers == 1)) return single;
  SectionKey other = sections_key(l);
  other.recompute = Recompute::none;
  const NetSections& kept = cache_->of(other);
  if (some) return std::max(single, kept.scratch.at(b));
  other.recompute = Recompute::full, other.grouped = true;
  const double counted = cache_->of(other).scratch.at(b);
  double most = single;
  for (const std::vector<double>& group : stages.largest) {
    double parts = 0, more = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      parts += group[i];
      more += (group[i] - priced_inner_[i]) * kept.parts[i].saved.at(b);
    }
    if (parts > 1) most = std::max(most, counted + more);
  }
  return most;
}

// ZeRO: the parameters of a part and its neighbour, or the gradients, are gathered at once.
double LayoutModel::unit_of(const Layout& l, const StageKind& s, const NetSections& n, bool gradients) {
  const bool keeps_experts = expert_shards_of(l) <= 1;
  double most = 0;
  for (const StageChunk& c : s.chunks) {
    double before = 0;
    for (const PartRun& r : c.runs) {
      const ParameterCounts& p = n.parts[r.part].parameters;
      const double kept = keeps_experts ? p.expert + p.frozen_expert : 0;
      const double own = gradients ? p.trained() : p.all() - kept;
      most = std::max({most, own * (r.inner > 0 ? 2 : 1), before > 0 ? before + own : 0});
      before = own;
    }
  }
  return most;
}

// Source and destination of a replayed prediction; on cores the receive buffer is also in this memory.
double LayoutModel::replay_of(const Layout& l, const StageKind& s, const NetSections& n) const {
  const bool reads = s.chunks.front().enters < 0;
  if (!replays() || !(reads || s.chunks.back().leaves < 0)) return 0;
  const double states = static_cast<double>(spec_.train.replay_capacity * spec_.history());
  return (1 + (reads && !machine_.accelerator ? states : 0)) * n.replayed.at(l.micro_batch);
}

void LayoutModel::add_memory(const Layout& l, LayoutCost& c) {
  const NetSections& n = sections_of(l);
  const StageKinds& stages = stages_of(l);
  const double shards = shards_of(l), expert_shards = expert_shards_of(l), passes = scratch_of(l, stages, n);
  const auto element = [&](double among) {
    const double half = sixteen_ ? (l.zero == 3 ? kHalf / among : kHalf) : 0;
    const double master = sixteen_ || l.zero == 3 ? kF32 / among : kF32;
    return (away(l) ? 0 : half + master) + (l.zero >= 2 ? gradient_ / among : gradient_) +
           (spec_.policy.offload_optimizer ? 0 : (moments_ + average_) * kF32 / among);
  };
  const auto crossing = [&](int32_t cut) {
    return cut < 0 ? 0 : n.crossing[stages.cuts[cut].like].at(l.micro_batch);
  };
  for (const StageKind& s : stages.kinds) {
    const ParameterCounts held = parameters_of(s.counts, n);
    const double parameters = held.trained(), matrix = sixteen_ ? kHalf : kF32;
    // In the type that they are read in, and nothing else
    const double frozen_experts = matrix * held.frozen_expert / (l.zero == 3 ? expert_shards : 1);
    const double frozen = ((matrix * (held.frozen_matrix() - held.frozen_expert) +
                            kF32 * (held.frozen() - held.frozen_matrix())) /
                               (l.zero == 3 ? shards : 1) +
                           frozen_experts) *
                          (away(l) ? 0 : 1);
    // Autograd makes a gradient when its layer's saved tensors are done with, unless earlier micro-batches
    // have.
    const double late =
        spec_.net.recorded() && micro_batches(l) == 1 && l.zero < 2 ? gradient_ * parameters : 0;
    const double buckets = nets::has_buckets(spec_.net, l.dp, l.zero) ? gradient_ * parameters : 0;
    const double persistent = element(shards) * (parameters - held.expert) +
                              element(expert_shards) * held.expert - late + buckets + frozen + n.constants +
                              replay_of(l, s, n),
                 saved = std::max(late, saved_of(l, s, n)), unit = unit_of(l, s, n, true);
    // Send buffers, and gradients of received and sent streams, which share memory.
    double streams = 0;
    for (const StageChunk& c : s.chunks) {
      const double in = crossing(c.enters), out = crossing(c.leaves);
      streams += c.times * ((out > 0 ? out : in) + std::max(in, out));
    }
    if (spec_.learnt_steps() > 1 && (s.chunks.front().enters < 0 || s.chunks.back().leaves < 0))
      streams += n.fed_back.at(l.micro_batch);
    double scratch =
        passes + streams +
        (l.zero == 3 ? unit_of(l, s, n, false) * (sixteen_ ? kHalf : kF32) * (1 + (away(l) ? 1 / shards : 0))
                     : 0) +
        (l.zero >= 2 ? unit * gradient_ : 0);
    // With empty scratch, offloaded moments take two units at a time: as many parts as fill one.
    if (spec_.policy.offload_optimizer) {
      const double bucket = spec_.policy.bucket_mb * 1e6 / kF32;
      double more = 0;
      for (const PartCount& c : s.counts)
        if (const double own = n.parts[c.part].parameters.trained(); c.inner > 0 && own > 0)
          more = std::max(more, 2 * (std::max(1.0, std::ceil(bucket / own)) - 1) * own);
      scratch = std::max(scratch, std::min(unit + more, parameters) * (moments_ + average_) * kF32 / shards);
    }
    if (persistent + saved + scratch > c.persistent + c.saved + c.scratch)
      c.persistent = persistent, c.saved = saved, c.scratch = scratch;
  }
  c.process = machine_[Coef::process].value;
  const bool nccl = machine_.accelerator && machine_.accelerator->vendor == "nvidia";
  c.nccl = nccl ? static_cast<double>(nccl_buffer_bytes(nets::most_groups(
                      l.dp, l.tp, l.cp, l.pp, l.sequence_parallel && l.tp > 1, l.zero > 0,
                      l.schedule == PipelineSchedule::interleaved, nets::has_partial(spec_), l.ep)))
                : 0;
  c.memory = c.persistent + c.saved + c.scratch + c.process + c.nccl;
}

}  // namespace isobar::perf
