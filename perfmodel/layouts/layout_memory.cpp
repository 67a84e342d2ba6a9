// Memory of the fullest stage, as model/plan/place.cpp places it.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "model/plan/schedule.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar {
namespace {

// Micro-batches in flight of each chunk of a stage. The count settles once the pipeline is full.
const std::vector<int64_t>& slots_of(ScheduleKind kind, int p, int stage, int64_t m, int v) {
  using Key = std::tuple<ScheduleKind, int, int, int64_t, int>;
  thread_local std::map<Key, std::vector<int64_t>> known;
  m = std::min<int64_t>(m, 4 * p);
  auto& slots = known[{kind, p, stage, m, v}];
  if (slots.empty()) slots = in_flight(schedule_actions(name_of(kind), p, stage, static_cast<int>(m), v), v);
  return slots;
}

}  // namespace

double LayoutModel::saved_of(const Layout& l, double blocks) {
  const double each = sections_of(l).block.saved.at(l.micro_batch);
  const auto n = static_cast<double>(spec_.policy.recompute_num_layers);
  if (l.recompute != kFullRecompute) return blocks * each;
  if (spec_.policy.recompute_method != "block") return std::ceil(blocks / n) * each;
  SectionKey kept = l.key();
  kept.recompute = 0;
  const double recomputed = std::min(n, blocks);
  return recomputed * each + (blocks - recomputed) * cache_.of(kept).block.saved.at(l.micro_batch);
}

// The blocks of a group are all there when its backward pass begins; the plan that was counted has groups of
// three.
double LayoutModel::scratch_of(const Layout& l) {
  const double b = l.micro_batch, single = sections_of(l).scratch.at(b);
  if (l.recompute != kFullRecompute) return single;
  const int64_t stages = int64_t{l.pp} * l.vpp, deepest = (spec_.net.blocks() + stages - 1) / stages;
  const auto group = static_cast<double>(std::min(spec_.policy.recompute_num_layers, deepest));
  SectionKey other = l.key();
  other.recompute = 0;
  const NetSections& kept = cache_.of(other);
  if (spec_.policy.recompute_method == "block") return std::max(single, kept.scratch.at(b));
  if (group <= 1) return single;
  other.recompute = kGroupRecompute;
  return std::max(single, cache_.of(other).scratch.at(b) + (group - 3) * kept.block.saved.at(b));
}

void LayoutModel::add_memory(const Layout& l, LayoutCost& c) {
  const NetSections& n = sections_of(l);
  const int64_t p = l.pp, v = l.vpp;
  const double b = l.micro_batch, m = micro_batches(l), shards = shards_of(l);
  const double half = sixteen_ ? (l.zero == 3 ? kHalf / shards : kHalf) : 0;
  const double master = sixteen_ || l.zero == 3 ? kF32 / shards : kF32;
  const double element = half + master + (l.zero >= 2 ? gradient_ / shards : gradient_) +
                         (spec_.policy.offload_optimizer ? 0 : moments_ * kF32 / shards);
  for (const Rank& r : ranks_of(l)) {
    const double persistent = element * parameters_of(r, n).all();
    double saved = 0;
    for (int64_t chunk = 0; chunk < v; ++chunk) {
      double slots = std::min<double>(m, static_cast<double>(p - r.stage));
      if (l.schedule == ScheduleKind::gpipe) slots = m;
      if (l.schedule == ScheduleKind::interleaved || l.schedule == ScheduleKind::zb_h1)
        slots = static_cast<double>(slots_of(l.schedule, static_cast<int>(p), static_cast<int>(r.stage),
                                             static_cast<int64_t>(m), static_cast<int>(v))[chunk]);
      const auto blocks = static_cast<double>(stage_depth(spec_.net.blocks(), p * v, chunk * p + r.stage));
      if (l.schedule == ScheduleKind::zb_h1)
        saved += slots * (blocks * n.block.split.at(b) + (r.last ? n.head.split.at(b) : 0));
      saved += slots * (saved_of(l, blocks) + (r.first && chunk == 0 ? n.embed.saved.at(b) : 0) +
                        (r.last && chunk == v - 1 ? n.head.saved.at(b) : 0));
    }
    // ZeRO: a unit in use and a block on its way
    const double unit =
        n.block.parameters.all() + std::max({n.block.parameters.all(), r.first ? n.embed.parameters.all() : 0,
                                             r.last ? n.head.parameters.all() : 0});
    double scratch = scratch_of(l) + (p > 1 ? 2 * static_cast<double>(v) * n.stream.at(b) : 0) +
                     (l.zero == 3 ? unit * (sixteen_ ? kHalf : kF32) : 0) +
                     (l.zero >= 2 ? unit * gradient_ : 0);
    // Offloaded moments visit two units at a time, when nothing else is in scratch: as many blocks as fill
    // one.
    if (spec_.policy.offload_optimizer) {
      const double bucket = spec_.policy.bucket_mb * 1e6 / kF32, block = n.block.parameters.all();
      const double two = unit + 2 * (std::max(1.0, std::ceil(bucket / block)) - 1) * block;
      scratch = std::max(scratch, std::min(two, parameters_of(r, n).all()) * moments_ * kF32 / shards);
    }
    if (persistent + saved + scratch > c.persistent + c.saved + c.scratch)
      c.persistent = persistent, c.saved = saved, c.scratch = scratch;
  }
  c.process = machine_[Coef::process].value;
  c.memory = c.persistent + c.saved + c.scratch + c.process;
}

}  // namespace isobar
