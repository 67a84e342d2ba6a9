// What a pipeline costs beyond the work of its slowest stage: filling and draining, and transfers.
#include <algorithm>
#include <cmath>

#include "model/plan/schedule.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/cost.h"

namespace isobar {

void LayoutModel::time_transfers(const Layout& l, const Placements& at, const NetSections& n,
                                 Step& step) const {
  step.near.clear(), step.far.clear(), step.busy.clear();
  for (const CutRange& cut : step.stages->cuts) {
    const auto transfer = [&](const Line& bytes, double per_host) {
      return isobar::seconds(
          count_collective(OpKind::send, bytes.at(l.micro_batch), 2, {2, per_host}, k_, where_), k_);
    };
    const Line &next = n.handed_on[cut.like], &all = n.crossing[cut.like];
    const double inside = at.pp > 1 ? 2 : 1, furthest = at.pp < l.pp ? 1 : inside;
    step.near.push_back(transfer(next, inside));
    step.far.push_back(transfer(next, furthest));
    step.busy.push_back(transfer(all, furthest));
  }
  if (rolls())
    step.round = isobar::seconds(count_collective(OpKind::send, n.fed_back.at(l.micro_batch), 2,
                                                  {2, at.pp >= l.pp ? 2.0 : 1.0}, k_, where_),
                                 k_);
}

// Stages hand a step of each micro-batch round before the next: each transfer of a round is waited for.
void LayoutModel::add_rollout(const Layout& l, const Step& step, LayoutCost& c) const {
  const double m = micro_batches(l), f = forwards(), b = backwards(), p = l.pp;
  double others = 0, round = step.round;
  for (size_t i = 0; i < step.kinds.size(); ++i) others += step.others(i) * step.kinds[i].all();
  const RollOutIdle idle = rollout_idle(name_of(l.schedule), l.pp, static_cast<int64_t>(m),
                                        spec_.train.rollout, spec_.learnt_steps());
  for (size_t i = 0; i < step.far.size(); ++i) {
    const CutRange& cut = step.stages->cuts[i];
    round += (cut.end - cut.begin) * step.far[i];
  }
  c.bubble = others * (idle.forward + 2 * idle.backward) / ((p - 1) * (f + 2 * b));
  c.pp = std::ceil(m / p) * (f + b) * round;
}

// Filling and draining pass every other stage once.
void LayoutModel::add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                               LayoutCost& c) const {
  if (rolls()) return add_rollout(l, step, c);
  const double p = l.pp, v = l.vpp, m = micro_batches(l);
  const StageKind& slow = step.slowest();
  const Step::Kind& own = step.kinds[step.slow];
  const double slowest = own.all();
  // A stage that has nothing to do gathers what it will need first. What it reduces last, it reduces after it
  // has sent its gradient on; with several chunks the next one has to wait for that.
  const auto idle = [&](const UnitWaits& w) {
    return w.all() - w.prefetched - (l.vpp > 1 ? 0.5 : 1) * w.behind;
  };
  double compute = 0, chunks = 0, units = 0;
  for (size_t i = 0; i < step.kinds.size(); ++i) {
    const Step::Kind& k = step.kinds[i];
    compute += step.others(i) * k.compute;
    chunks += step.others(i) * k.longest;
    units += step.others(i) * idle(k.waits);
  }
  const double wait = compute + units;
  c.bubble = chunks + units / v;
  double fill = 0, link = 0;
  for (size_t i = 0; i < step.far.size(); ++i) {
    const CutRange& cut = step.stages->cuts[i];
    const double crossings = at.pp < p ? std::floor(cut.end / at.pp) - std::floor(cut.begin / at.pp) : 0;
    fill += 2 * (crossings * step.far[i] + (cut.end - cut.begin - crossings) * step.near[i]);
  }
  for (const StageKind& s : step.stages->kinds) {
    double sends = 0;
    for (const StageChunk& chunk : s.chunks)
      if (chunk.leaves >= 0) sends += chunk.times * step.busy[chunk.leaves];
    link = std::max(link, sends);
  }
  // Once it is full, a micro-batch takes as long as the slowest stage, or as a link carries what one stage
  // sends, or as its round trip takes over how many are under way: as many as there are stages, none to
  // spare.
  const double round = wait + slowest + fill;
  double period = std::max(slowest, link);
  double forward = own.waits.forward;
  for (const PartCount& part : slow.counts) forward += part.count * t.parts[part.part].forward.seconds;
  // Gradients of the streams have one buffer: the next arrive when the last have left.
  const double backward = slowest - forward, early = own.waits.prefetched_backward;
  double arriving = backward - early;
  const bool first = slow.chunks.front().enters < 0, last = slow.chunks.back().leaves < 0;
  for (const StageChunk& chunk : slow.chunks) {
    if (!last) arriving += chunk.times * step.far[chunk.leaves];
    if (!first) arriving += chunk.times * step.far[chunk.enters];
  }
  switch (l.schedule) {
    case ScheduleKind::gpipe:
      period = std::max(forward, link) + std::max(backward, arriving);
      break;
    case ScheduleKind::one_f_one_b:
      period = std::max({period, round / p, arriving});
      break;
    case ScheduleKind::interleaved:  // stages run (p - 1) + (v - 1) p + 1 chunks ahead in the mean, and one
                                     // more
      period = std::max({period, round / (p + 1 / v), arriving});
      break;
    case ScheduleKind::zb_h1:
      break;
  }
  const double steady = std::max(0.0, m - 1);
  c.pp = fill + steady * (period - slowest);
  if (l.schedule != ScheduleKind::zb_h1) return;
  // Weight gradients of other micro-batches fill two thirds of the bubble, as far as there are others: the
  // stage's own while it waits, and those that the others put off. What is left of a stage is then `urgent`:
  // with waits of its own, for what hid under the weight gradients does not get any faster by them.
  double urgent = 0;
  for (size_t i = 0; i < step.kinds.size(); ++i)
    urgent += step.others(i) * (step.kinds[i].urgent + idle(step.kinds[i].urgent_waits));
  const double own_urgent = own.urgent + own.urgent_waits.all(), filled = std::min(1.0, m / p);
  const double busy =
      std::max(0.0, wait - filled * (wait - urgent) - filled * (p - 1) * (slowest - own_urgent));
  // Where a link or the round trip sets the pace nobody waits for weight gradients at all.
  const double paced = std::max(link, (urgent + own_urgent + fill) / p) - slowest;
  const bool at_work = busy >= urgent + steady * paced;
  c.bubble = at_work ? busy : urgent;
  c.pp = fill + (at_work ? 0 : steady * paced);
}

}  // namespace isobar
