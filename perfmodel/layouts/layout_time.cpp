// Seconds of a step beside the pipeline's: compute, what data-parallel ranks exchange, the optimizer.
#include <algorithm>
#include <cmath>

#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/cost.h"

namespace isobar {
namespace {}

UnitStage LayoutModel::stage_of(const Layout& l, const Rank& r) const {
  return {static_cast<double>(r.blocks) / l.vpp, l.vpp, r.first, r.last};
}

UnitPolicy LayoutModel::unit_policy(const Layout& l, const Placements& at) const {
  const Placement cut{static_cast<double>(l.dp) * l.cp, at.dp * at.cp};
  Placement whole = cut;
  if (l.sequence_parallel) whole = {cut.ranks * l.tp, cut.per_host * at.tp};
  return {.zero = l.zero,
          .by_reader = sixteen_ && l.zero > 0,
          .gradient = gradient_,
          .matrix = sixteen_ ? kHalf : kF32,
          .bucket = spec_.policy.bucket_mb * 1e6 / kF32,
          .cut = cut,
          .whole = whole};
}

// A search asks for the same units with every micro-batch, schedule and recomputation.
const UnitTimes& LayoutModel::units_of(const Layout& l, const Placements& at, const NetSections& n,
                                       size_t kind, const Rank& r) {
  const std::array<int32_t, 5> axes{l.dp, l.tp, l.cp, l.pp, l.sequence_parallel ? 1 : 0};
  if (axes != unit_axes_) {
    unit_times_.clear();
    unit_axes_ = axes;
  }
  const int stage = l.zero == 2 ? 1 : l.zero;  // the same units
  const uint64_t key = kind | static_cast<uint64_t>(stage) << 2 | static_cast<uint64_t>(l.vpp) << 4 |
                       static_cast<uint64_t>(at.dp * at.cp) << 20 | static_cast<uint64_t>(at.tp) << 44;
  const auto [found, fresh] = unit_times_.try_emplace(key);
  if (fresh) found->second = unit_times(n, stage_of(l, r), unit_policy(l, at), k_, where_);
  return found->second;
}

LayoutModel::Step LayoutModel::step_of(const Layout& l, const Placements& at, const StageTimes& t) {
  static const UnitTimes kNone{};
  Step s;
  s.ranks = ranks_of(l);
  s.times = {1, std::max(0.0, l.pp - 2.0), l.pp > 1 ? 1.0 : 0.0};
  const bool exchanges = l.dp * l.cp > 1 || (l.sequence_parallel && l.tp > 1);
  const PolicySpec& p = spec_.policy;
  const bool full = l.recompute == kFullRecompute;
  UnitPasses passes{
      .embed_forward = t.embed.forward.seconds,
      .block_forward = t.block.forward.seconds,
      .head_forward = t.head.forward.seconds,
      .embed_backward = t.embed.backward.seconds,
      .block_backward = t.block.backward.seconds,
      .head_backward = t.head.backward.seconds,
      .split = l.schedule == ScheduleKind::zb_h1,
      .embed_weight = t.embed.backward.weight,
      .block_weight = t.block.backward.weight,
      .head_weight = t.head.backward.weight,
      .after_forward = t.block.forward.after_reads,
      .after_backward = t.block.backward.after_reads,
      .reads_cut_vectors = full,
      .group = full && p.recompute_method == "uniform" ? static_cast<double>(p.recompute_num_layers) : 1};
  for (size_t i = 0; i < s.ranks.size(); ++i) {
    s.units[i] = &kNone;
    if (s.times[i] == 0) continue;
    const Rank& r = s.ranks[i];
    s.micro[i] = r.of(t, &SectionTime::seconds);
    if (exchanges || spec_.policy.offload_optimizer) {
      s.units[i] = &units_of(l, at, *t.sections, i, r);
      if (l.zero >= 2) {
        // Read, read and written
        const double kept = parameters_of(r, *t.sections).all() / shards_of(l);
        passes.add =
            (s.units[i]->units * k_[index_of(Coef::op)] + 3 * gradient_ * kept * k_[index_of(Coef::copy)]) /
            std::max(1.0, static_cast<double>(r.blocks));
        s.waits[i] = waits_of(*s.units[i], stage_of(l, r), passes,
                              {.zero = l.zero,
                               .overlap = spec_.policy.overlap,
                               .slowdown = machine_[Coef::overlap_slowdown].value});
      }
      s.micro[i] += s.waits[i].all();
    }
  }
  return s;
}

void LayoutModel::add_compute(const Layout& l, const StageTimes& t, const Step& step, LayoutCost& c) const {
  const NetSections& n = *t.sections;
  const Rank& r = step.slowest();
  const double b = l.micro_batch, m = micro_batches(l), op = k_[index_of(Coef::op)];
  // The stream is added up before it is sent.
  const double boundary = l.pp > 1 ? l.vpp * (op + 3 * n.stream.at(b) * k_[index_of(Coef::norm)]) : 0;
  c.compute = m * (r.of(t, &SectionTime::compute) + boundary);
  c.tp = m * r.of(t, &SectionTime::tp);
  c.cp = m * r.of(t, &SectionTime::cp);
  c.slowdown = m * r.of(t, &SectionTime::slowdown);
  c.host = m * r.of(t, &SectionTime::host);
  c.ceiling = m * r.of(t, &SectionTime::ceiling);
  c.compute += m * step.waits[step.slow].added;
}

void LayoutModel::add_data_parallel(const Layout& l, const Placements& at, const StageTimes& t,
                                    const Step& step, LayoutCost& c) const {
  const double m = micro_batches(l), slower = machine_[Coef::overlap_slowdown].value;
  if (l.zero >= 2) {
    const UnitWaits& w = step.waits[step.slow];
    c.dp += m * (w.all() - w.slowdown - w.added);
    c.slowdown += m * w.slowdown;
    return;
  }
  // Reduced under the backward pass of the last micro-batch; later stages have theirs behind them while the
  // pipeline drains.
  const bool split = l.schedule == ScheduleKind::zb_h1;
  double SectionTime::*const pass = split ? &SectionTime::weight : &SectionTime::seconds;
  const double block = t.block.backward.*pass, embed = t.embed.backward.*pass;
  double slack = 0, waits = 0, slowed = 0;
  for (size_t i = 0; i < step.ranks.size(); ++i) {
    if (step.times[i] == 0) continue;
    const UnitTimes& u = *step.units[i];
    const bool overlap = spec_.policy.overlap;
    double left = overlap ? u.exposed((1 + slower) * block, (1 + slower) * embed) : u.reduce / l.vpp;
    // Other chunks have theirs while the micro-batches of a round pass this one.
    const double chunk = static_cast<double>(step.ranks[i].blocks) / l.vpp;
    if (l.vpp > 1)
      left = std::max(left, u.reduce - ((l.vpp - 1.0) * l.pp + (overlap ? 1 : 0)) * chunk * block);
    if (i == 2) slack += (step.times[1] - 1) * chunk * t.block.backward.seconds;
    const double own = std::max(0.0, left - (split ? 0 : slack)),
                 slow = std::max(0.0, u.reduce - left) * slower / (1 + slower);
    if (own + slow > waits + slowed) waits = own, slowed = slow;
    slack += chunk * t.block.backward.seconds + (i == 0 ? t.embed.backward.seconds : 0);
  }
  c.dp += waits;
  c.slowdown += slowed;
  if (spec_.net.words() && spec_.net.words()->tie_embeddings && l.pp > 1)
    c.dp += isobar::seconds(count_collective(OpKind::all_reduce, gradient_ * t.sections->embed.parameters.cut,
                                             gradient_, {2, at.pp >= l.pp ? 2.0 : 1.0}, k_, where_),
                            k_);
}

// The norm of all gradients, which everyone waits for; then unit by unit Adam, and what it updated goes to
// the other ranks while it works on the next.
void LayoutModel::add_optimizer(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                                LayoutCost& c) const {
  const double op = k_[index_of(Coef::op)], bytes = k_[index_of(Coef::optimizer)],
               flop = k_[index_of(Coef::vector)];
  const auto all_reduce = [&](double ranks, double per_host) {
    return ranks > 1
               ? isobar::seconds(
                     count_collective(OpKind::all_reduce, kF32, kF32, {ranks, per_host}, k_, where_), k_)
               : 0;
  };
  double norm = 0, update = 0, gathers = 0;
  for (size_t i = 0; i < step.ranks.size(); ++i) {
    if (step.times[i] == 0) continue;
    const UnitTimes& u = *step.units[i];
    const double updated = parameters_of(step.ranks[i], *t.sections).all() / shards_of(l);
    const double ops = op * (l.zero > 0 ? u.units : 2);
    norm = std::max(norm, ops + updated * (gradient_ * bytes + 2 * flop));
    double adam = ops + updated * (((1 + moments_) * 2 * kF32 + (sixteen_ ? kHalf : 0) + gradient_) * bytes +
                                   6 * moments_ * flop);
    // Moments that live in host memory come and go a unit at a time, each way on a lane of its own; both at
    // once slow each other down.
    if (spec_.policy.offload_optimizer) {
      const double moved = updated * moments_ * kF32 * k_[index_of(Coef::copy_host)];
      const double units = std::max(1.0, u.units), slower = 1 + machine_[Coef::overlap_slowdown].value;
      // Without overlap a unit's second moment goes while the next one's first comes.
      adam = spec_.policy.overlap
                 ? std::max(adam, slower * moved) + (adam + slower * moved) / units
                 : adam + (moments_ > 1 ? 1 + 0.5 * slower + 0.25 * (slower - 1) : 2) * moved;
    }
    const double both =
        l.zero == 1 || l.zero == 2 ? std::max(adam + u.last_gather, u.first_share * adam + u.gather) : adam;
    if (both > update + gathers) update = adam, gathers = both - adam;
  }
  c.dp += gathers;
  const double shards = l.zero > 0 ? static_cast<double>(l.dp) * l.cp : 1;
  const double together = l.zero > 0 ? at.dp * at.cp : 1;
  c.optimizer = norm + update +
                all_reduce(static_cast<double>(l.tp) * l.pp * shards, at.tp * at.pp * together) +
                all_reduce(static_cast<double>(l.dp) * l.pp, at.dp * at.pp);
}

}  // namespace isobar
