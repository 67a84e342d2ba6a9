// Seconds of a step other than the pipeline's: compute, data-parallel exchange, the optimizer.
#include <algorithm>
#include <limits>

#include "model/nets/layout/sharding.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/cost.h"

namespace isobar::perf {

UnitPolicy LayoutModel::unit_policy(const Layout& l, const Placements& at) const {
  const Placement cut{static_cast<double>(l.dp) * l.cp, at.dp * at.cp};
  Placement whole = cut;
  if (l.sequence_parallel) whole = {cut.ranks * l.tp, cut.per_host * at.tp};
  return {.zero = l.zero,
          .by_reader = sixteen_ && l.zero > 0,
          .gradient = gradient_,
          .matrix = sixteen_ ? kHalf : kF32,
          .bucket = spec_.policy.bucket_mb * 1e6 / kF32,
          .host = away(l) ? k_[index_of(Coef::copy_host)] : 0,
          .halves = sixteen_,
          .cut = cut,
          .expert = {cut.ranks / l.ep, std::clamp(cut.per_host / at.ep, 1.0, cut.ranks / l.ep)},
          .partial = {cut.ranks * l.tp, cut.per_host * at.tp},
          .whole = whole};
}

// Cached, since a search needs the same units with every micro-batch and schedule. Recomputation also decides
// what is gathered again for backward.
const UnitTimes& LayoutModel::units_of(const Layout& l, const Placements& at, const NetSections& n,
                                       size_t kind, const StageKind& s) {
  const std::array<int32_t, 6> axes{l.dp, l.tp, l.cp, l.pp, l.ep, l.sequence_parallel ? 1 : 0};
  if (axes != unit_axes_) {
    unit_times_.clear();
    unit_axes_ = axes;
  }
  const int stage = l.zero == 2 ? 1 : l.zero;  // the same units
  const uint64_t key = static_cast<uint64_t>(stage) | static_cast<uint64_t>(l.vpp) << 2 |
                       static_cast<uint64_t>(at.dp * at.cp) << 16 | static_cast<uint64_t>(at.tp) << 40 |
                       static_cast<uint64_t>(stage == 3 ? l.recompute : Recompute::none) << 50 |
                       static_cast<uint64_t>(kind) << 52;
  const auto [found, fresh] = unit_times_.try_emplace(key);
  if (fresh) found->second = unit_times(n, s.chunks, unit_policy(l, at), k_, where_);
  return found->second;
}

// In a roll-out units are gathered, reduced and added in every step.
std::vector<PartTime> LayoutModel::of_a_step(std::vector<PartTime> parts) const {
  for (PartTime& part : parts) {
    part.forward.seconds /= forwards(), part.forward.after_reads /= forwards();
    part.backward.seconds /= backwards(), part.backward.after_reads /= backwards();
  }
  return parts;
}

UnitWaits LayoutModel::rolled(UnitWaits w) const {
  const double slow_forward = w.all() > 0 ? w.slowdown * w.forward / w.all() : 0;
  w.slowdown = slow_forward * forwards() + (w.slowdown - slow_forward) * backwards();
  w.forward *= forwards(), w.backward *= backwards(), w.added *= backwards();
  return w;
}

LayoutModel::Step& LayoutModel::step_of(const Layout& l, const Placements& at, const StageTimes& t) {
  static const UnitTimes kNone{};
  Step& s = step_;
  s.stages = &stages_of(l);
  s.kinds.assign(s.stages->kinds.size(), {});
  const bool exchanges = l.dp * l.cp > 1 || (l.tp > 1 && (l.sequence_parallel || nets::has_partial(spec_)));
  const bool split = l.schedule == PipelineSchedule::zb_h1, apart = launched_apart(l);
  if (split) {
    s.urgent = t.parts;
    for (PartTime& part : s.urgent)
      for (SectionTime* time : {&part.forward, &part.backward}) time->seconds -= time->weight;
  }
  if (l.pp > 1) time_transfers(l, at, *t.sections, s);
  for (size_t i = 0; i < s.kinds.size(); ++i) {
    const StageKind& stage = s.stages->kinds[i];
    Step::Kind& k = s.kinds[i];
    k.units = &kNone;
    k.compute = k.longest = t.of(stage.counts, &SectionTime::seconds);
    if (l.pp > 1 && stops(at.pp >= l.pp)) k.moved = transfers_of(stage, s);
    if (l.vpp > 1) {
      k.longest = 0;
      for (const StageChunk& c : stage.chunks) {
        double chunk = 0;
        for (const PartRun& r : c.runs) chunk += r.count * t.parts[r.part].of(&SectionTime::seconds);
        k.longest = std::max(k.longest, chunk);
      }
    }
    if (split) k.urgent = k.compute - t.of(stage.counts, &SectionTime::weight);
    if (!exchanges && !spec_.policy.offload_optimizer && !away(l)) continue;
    k.units = &units_of(l, at, *t.sections, i, stage);
    if (l.zero < 2) continue;
    // Two reads and a write
    const double kept = updated_of(l, parameters_of(stage.counts, *t.sections));
    const double added =
        k.units->units * k_[index_of(Coef::op)] + 3 * gradient_ * kept * k_[index_of(Coef::copy)];
    const WaitPolicy policy{.zero = l.zero,
                            .overlap = spec_.policy.overlap && !exchange_stops(l, at),
                            .slowdown = machine_[Coef::overlap_slowdown].value,
                            .added = added,
                            .grouped = l.recompute == Recompute::full};
    k.waits = rolls() ? rolled(waits_of(*k.units, stage, of_a_step(t.parts), policy))
                      : waits_of(*k.units, stage, apart ? t.device : t.parts, policy);
    if (split) k.urgent_waits = waits_of(*k.units, stage, s.urgent, policy);
  }
  s.events = l.pp > 1 && !rolls() && unequal_stages_ ? pipeline_seconds(l, at, t, s) : 0;
  return s;
}

// The host launches ops in sequence, independently of the device, and keeps its lead from one part to the
// next. Only sums and maxima, so the time is monotonic in every price.
double LayoutModel::launched(const Layout& l, const StageKind& stage, const StageTimes& t,
                             const Step::Kind& kind) const {
  double host = 0, device = 0;  // time at which all is launched, and done
  const auto done = [&](double count, const SectionTime& s) {
    return std::max(device + count * s.seconds, host + count * s.launches);
  };
  const auto run = [&](const PartRun& r, const SectionTime& s) {
    device = done(r.count, s);
    host += r.count * s.launches;
  };
  double last = 0;  // end of the last reduction
  const auto micro_batch = [&] {
    last = 0;
    for (const StageChunk& c : stage.chunks)
      for (double i = 0; i < c.times; ++i)
        for (const PartRun& r : c.runs) run(r, t.device[r.part].forward);
    auto rest = kind.units->rests.rbegin();
    for (size_t c = stage.chunks.size(); c-- > 0;)
      for (double i = stage.chunks[c].times; i-- > 0;)
        for (size_t r = stage.chunks[c].runs.size(); r-- > 0;) {
          const PartRun& parts = stage.chunks[c].runs[r];
          const SectionTime& pass = t.device[parts.part].backward;
          for (; rest != kind.units->rests.rend() && rest->chunk == static_cast<int32_t>(c) &&
                 rest->run == static_cast<int32_t>(r);
               ++rest)
            last = std::max(last, done(parts.count - rest->parts, pass) + rest->seconds);
          run(parts, pass);
        }
    if (!spec_.policy.overlap) last = device + kind.units->reduce;
  };
  micro_batch();
  const double m = micro_batches(l), launches = host,
               busy = t.of(stage.counts, &SectionTime::seconds) - t.of(stage.counts, &SectionTime::host) +
                      kind.waits.all(),
               pace = std::max(launches, busy), first = std::max(device, busy);
  if (m > 1) {
    device = first + (m - 2) * pace, host = (m - 1) * launches;
    micro_batch();
  }
  return std::max({first + (m - 1) * pace, device, l.zero < 2 ? last : 0});
}

// Seconds for which the host launches ops in a micro-batch: compute and, with ZeRO, reductions, additions
// and, at stage 3, gathers.
double LayoutModel::launches_of(const StageKind& stage, const StageTimes& t, const UnitTimes& units,
                                int zero) const {
  return t.of(stage.counts, &SectionTime::launches) +
         k_[index_of(Coef::host_op)] *
             (2 * units.units * backwards() + (zero == 3 ? units.gathers * (forwards() + backwards()) / 2 *
                                                               (spec_.policy.offload_parameters ? 2 : 1)
                                                         : 0));
}

void LayoutModel::add_compute(const Layout& l, const StageTimes& t, const Step& step, LayoutCost& c) const {
  const StageKind& s = step.slowest();
  const double m = micro_batches(l);
  c.compute = m * (t.of(s.counts, &SectionTime::compute) + boundaries_of(l, t, step));
  c.tp = m * t.of(s.counts, &SectionTime::tp);
  c.cp = m * t.of(s.counts, &SectionTime::cp);
  c.ep = m * t.of(s.counts, &SectionTime::ep);
  c.slowdown = m * t.of(s.counts, &SectionTime::slowdown);
  c.host = launched_apart(l) ? 0 : m * t.of(s.counts, &SectionTime::host);
  c.ceiling = m * t.of(s.counts, &SectionTime::ceiling);
  c.compute += m * step.kinds[step.slow].waits.added;
}

void LayoutModel::add_data_parallel(const Layout& l, const Placements& at, const StageTimes& t,
                                    const Step& step, LayoutCost& c) const {
  const double m = micro_batches(l), slower = machine_[Coef::overlap_slowdown].value;
  if (l.zero >= 2) {
    const UnitWaits& w = step.kinds[step.slow].waits;
    c.dp += m * (w.all() - w.slowdown - w.added);
    c.slowdown += m * w.slowdown;
    return;
  }
  // Reduced under the last micro-batch's backward; on later stages also while the pipeline drains.
  const bool split = l.schedule == PipelineSchedule::zb_h1;
  double SectionTime::*const pass = split ? &SectionTime::weight : &SectionTime::seconds;
  const std::vector<PartTime>& parts = launched_apart(l) ? t.device : t.parts;
  const auto passing = [&](const std::vector<PartRun>& runs, double SectionTime::*seconds) {
    double all = 0;
    for (const PartRun& r : runs) all += r.count * parts[r.part].backward.*seconds;
    return all;
  };
  const bool overlap = spec_.policy.overlap && !exchange_stops(l, at);
  double waits = 0, slowed = 0;
  for (size_t i = 0; i < step.kinds.size(); ++i) {
    const StageKind& stage = step.stages->kinds[i];
    const UnitTimes& u = *step.kinds[i].units;
    double left = u.reduce / l.vpp;
    if (overlap)
      left = u.exposed(stage.chunks[0], 0, [&](const PartRun& r) {
        return (1 + slower) * (parts[r.part].backward.*pass) / backwards();
      });
    // Other chunks reduce while a round's micro-batches pass this one.
    if (l.vpp > 1) {
      double shortest = std::numeric_limits<double>::infinity();
      for (const StageChunk& c : stage.chunks) shortest = std::min(shortest, passing(c.runs, pass));
      left = std::max(left, u.reduce - ((l.vpp - 1.0) * l.pp + (overlap ? 1 : 0)) * shortest);
    }
    double slack = 0;
    for (size_t k = 0; k < step.kinds.size(); ++k)
      if (stage.before[k] > 0)
        slack += stage.before[k] * passing(step.stages->kinds[k].chunks[0].runs, &SectionTime::seconds);
    const double own = std::max(0.0, left - (split ? 0 : slack)),
                 slow = std::max(0.0, u.reduce - left) * slower / (1 + slower);
    if (own + slow > waits + slowed) waits = own, slowed = slow;
  }
  c.dp += waits;
  c.slowdown += slowed;
  if (t.sections->tied > 0 && l.pp > 1)
    c.dp += isobar::perf::seconds(count_collective(plan::OpKind::all_reduce, gradient_ * t.sections->tied,
                                                   gradient_, {2, at.pp >= l.pp ? 2.0 : 1.0}, k_, where_),
                                  k_);
}

// The norm of all gradients, a barrier; then Adam unit by unit, with gathers of updated parameters under the
// next unit's update.
void LayoutModel::add_optimizer(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                                LayoutCost& c) const {
  const auto all_reduce = [&](double ranks, double per_host) {
    return ranks > 1 ? isobar::perf::seconds(count_collective(plan::OpKind::all_reduce, kF32, kF32,
                                                              {ranks, per_host}, k_, where_),
                                             k_)
                     : 0;
  };
  double norm = 0, update = 0, gathers = 0;
  constexpr double kMetrics = 16;  // bytes that are cleared
  for (size_t i = 0; i < step.kinds.size(); ++i) {
    const UnitTimes& u = *step.kinds[i].units;
    const double updated = updated_of(l, parameters_of(step.stages->kinds[i].counts, *t.sections));
    const double ops = std::max(1.0, l.zero > 0 ? u.units : l.tp > 1 ? 2 : 1), each = updated / ops;
    norm = std::max(norm, ops * op_time(plan::OpKind::squared_sum, each * gradient_, 2 * each));
    double adam = ops * op_time(plan::OpKind::adam,
                                each * ((1 + moments_) * 2 * kF32 + (sixteen_ ? kHalf : 0) + gradient_),
                                6 * moments_ * each) +
                  average_ * ops * op_time(plan::OpKind::average, 3 * kF32 * each, 3 * each);
    // Offloaded moments and parameters move a unit at a time, with a lane for each direction; concurrent
    // directions slow each other down.
    const double visiting = (spec_.policy.offload_optimizer ? (moments_ + average_) * kF32 : 0) +
                            (away(l) ? kF32 + (sixteen_ ? kHalf / 2 : 0) : 0);  // bytes each way
    if (visiting > 0) {
      const double moved = updated * visiting * k_[index_of(Coef::copy_host)];
      const double units = std::max(1.0, u.units), slower = 1 + machine_[Coef::overlap_slowdown].value;
      // Without overlap a unit's second moment is stored while the next one's first is loaded.
      adam = spec_.policy.overlap
                 ? std::max(adam, slower * moved) + (adam + slower * moved) / units
                 : adam + (moments_ > 1 ? 1 + 0.5 * slower + 0.25 * (slower - 1) : 2) * moved;
    }
    const bool gathers_after = l.zero == 1 || l.zero == 2;
    const double both = !gathers_after ? adam
                        : exchange_stops(l, at)
                            ? adam + u.gather
                            : std::max(adam + u.last_gather, u.first_share * adam + u.gather);
    if (both > update + gathers) update = adam, gathers = both - adam;
  }
  c.dp += gathers;
  const double shards = l.zero > 0 ? shards_of(l) : l.ep;
  const double together = l.zero > 0 ? at.dp * at.cp : at.ep;
  c.optimizer = op_time(plan::OpKind::zero, kMetrics, 0) + norm + update +
                all_reduce(static_cast<double>(l.tp) * l.pp * shards, at.tp * at.pp * together) +
                all_reduce(static_cast<double>(l.dp) * l.pp, at.dp * at.pp);
}

}  // namespace isobar::perf
