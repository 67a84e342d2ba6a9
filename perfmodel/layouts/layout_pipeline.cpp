// A pipeline's cost beyond the work of its slowest stage: fill and drain, and transfers.
#include <algorithm>
#include <cmath>

#include "model/plan/schedule.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/layouts/pipeline_events.h"
#include "perfmodel/step/cost.h"

namespace isobar::perf {

void LayoutModel::time_transfers(const Layout& l, const Placements& at, const NetSections& n,
                                 Step& step) const {
  step.near.clear(), step.far.clear(), step.busy.clear();
  for (const CutRange& cut : step.stages->cuts) {
    const auto transfer = [&](const Line& bytes, double per_host) {
      return isobar::perf::seconds(
          count_collective(plan::OpKind::send, bytes.at(l.micro_batch), 2, {2, per_host}, k_, where_), k_);
    };
    const Line &next = n.handed_on[cut.like], &all = n.crossing[cut.like];
    const double inside = at.pp > 1 ? 2 : 1, furthest = at.pp < l.pp ? 1 : inside;
    step.near.push_back(transfer(next, inside));
    step.far.push_back(transfer(next, furthest));
    step.busy.push_back(transfer(all, furthest));
  }
  const Line& round = replays() ? n.replayed : n.fed_back;
  if (rolls() || replays())
    step.round = isobar::perf::seconds(count_collective(plan::OpKind::send, round.at(l.micro_batch), 2,
                                                        {2, at.pp >= l.pp ? 2.0 : 1.0}, k_, where_),
                                       k_);
}

// In a roll-out each round of steps waits for its transfers.
void LayoutModel::add_rollout(const Layout& l, const Step& step, LayoutCost& c) const {
  const double m = micro_batches(l), f = forwards(), b = backwards(), p = l.pp;
  double others = 0, round = step.round;
  for (size_t i = 0; i < step.kinds.size(); ++i) others += step.others(i) * step.kinds[i].all();
  const plan::RollOutIdle idle = plan::rollout_idle(l.schedule, l.pp, static_cast<int64_t>(m),
                                                    spec_.train.rollout, spec_.learnt_steps());
  for (size_t i = 0; i < step.far.size(); ++i) {
    const CutRange& cut = step.stages->cuts[i];
    round += (cut.end - cut.begin) * step.far[i];
  }
  c.bubble = others * (idle.forward + 2 * idle.backward) / ((p - 1) * (f + 2 * b));
  c.pp = std::ceil(m / p) * (f + b) * round;
}

// Streams are summed before they are sent, and received gradients are copied.
double LayoutModel::boundary_of(const Layout& l, const NetSections& n, const CutRange& cut) const {
  return k_[index_of(Coef::op)] + 3 * n.handed_on[cut.like].at(l.micro_batch) * k_[index_of(Coef::norm)];
}

// Seconds for which the busiest link carries one stage's data of a micro-batch
double LayoutModel::link_of(const Step& step) {
  double link = 0;
  for (const StageKind& s : step.stages->kinds) {
    double sends = 0;
    for (const StageChunk& chunk : s.chunks)
      if (chunk.leaves >= 0) sends += chunk.times * step.busy[chunk.leaves];
    link = std::max(link, sends);
  }
  return link;
}

double LayoutModel::transfers_of(const StageKind& stage, const Step& step) {
  double all = 0;
  for (const StageChunk& chunk : stage.chunks)
    for (const int32_t cut : {chunk.enters, chunk.leaves})
      if (cut >= 0) all += 2 * chunk.times * step.busy[cut];
  return all;
}

double LayoutModel::boundaries_of(const Layout& l, const StageTimes& t, const Step& step) const {
  double all = 0;
  for (const StageChunk& chunk : step.slowest().chunks)
    if (const int32_t cut = chunk.leaves >= 0 ? chunk.leaves : chunk.enters; cut >= 0)
      all += chunk.times * boundary_of(l, *t.sections, step.stages->cuts[cut]);
  return all;
}

double LayoutModel::pipeline_seconds(const Layout& l, const Placements& at, const StageTimes& t,
                                     const Step& step) {
  const std::vector<StreamLine>& streams = cache_->streams(sections_key(l));
  const NetSections& n = *t.sections;
  const StageKinds& stages = *step.stages;
  const auto virtuals = static_cast<int32_t>(stages.begins.size()) - 1;
  const auto transfer = [&](size_t stream, int32_t cut) {
    const int32_t from = cut % l.pp, to = (cut + 1) % l.pp;
    const auto near = static_cast<int32_t>(at.pp);
    const double inside = near > 1 && from / near == to / near ? 2 : 1;
    if (stops(at.pp >= l.pp)) return 0.0;  // part of the stages' work
    return isobar::perf::seconds(count_collective(plan::OpKind::send, streams[stream].bytes.at(l.micro_batch),
                                                  2, {2, inside}, k_, where_),
                                 k_);
  };
  std::vector<VirtualStage> all(virtuals);
  for (int32_t v = 0; v < virtuals; ++v) {
    VirtualStage& s = all[v];
    const int32_t first = stages.begins[v], end = stages.begins[v + 1];
    const UnitWaits& w = step.kinds[stages.kind_of[v % l.pp]].waits;
    s.wait_forward = w.forward / l.vpp, s.wait_backward = w.backward / l.vpp, s.behind = w.behind / l.vpp;
    s.ahead_backward = w.prefetched_backward / l.vpp;
    s.ahead_forward = (w.prefetched - w.prefetched_backward) / l.vpp;
    std::vector<std::vector<int32_t>> takes(end - first), gives(end - first);
    for (size_t i = 0; i < streams.size(); ++i) {
      const nets::NetStream& x = streams[i].stream;
      const bool enters = x.from < first && first <= x.to, leaves = x.from < end && end <= x.to;
      if (enters) {
        if (x.to < end) takes[x.to - first].push_back(static_cast<int32_t>(s.enters.size()));
        s.enters.push_back({static_cast<int32_t>(i), x.same, transfer(i, v - 1), leaves});
      }
      if (leaves) {
        if (x.from >= first) gives[x.from - first].push_back(static_cast<int32_t>(s.leaves.size()));
        s.leaves.push_back({static_cast<int32_t>(i), x.same, transfer(i, v), enters});
      }
    }
    const double moved = step.kinds[stages.kind_of[v % l.pp]].moved / l.vpp;
    // Backward passes run in the opposite direction.
    bool more = true;  // begins a segment
    std::vector<int32_t> segment_of;
    for (int32_t i = 0; i < end - first; ++i) {
      if (more || !takes[i].empty()) s.segments.push_back({});
      VirtualStage::Segment& segment = s.segments.back();
      const PartTime& part = t.parts[net_.part[first + i]];
      segment.forward.add(part.forward.seconds - part.forward.host + (i == 0 ? moved / 2 : 0),
                          part.forward.launches);
      segment_of.push_back(static_cast<int32_t>(s.segments.size()) - 1);
      if (!takes[i].empty()) segment.takes = takes[i];
      segment.gives = gives[i];
      segment.hands_on = first + i + 1 == end;
      more = !gives[i].empty();
    }
    for (int32_t i = end - first; i-- > 0;) {
      VirtualStage::Segment& segment = s.segments[segment_of[i]];
      const SectionTime& pass = t.parts[net_.part[first + i]].backward;
      const double device = pass.seconds - pass.host + (i == 0 ? moved / 2 : 0);
      if (l.schedule != PipelineSchedule::zb_h1) {
        segment.backward.add(device, pass.launches);
        continue;
      }
      const double late = device > 0 ? std::min(1.0, pass.weight / device) : 0;
      segment.backward.add(device * (1 - late), pass.launches * (1 - late));
      segment.weight.add(device * late, pass.launches * late);
    }
    if (v + 1 < virtuals)
      for (const CutRange& cut : stages.cuts)
        if (cut.begin <= v && v < cut.end) s.boundary = boundary_of(l, n, cut);
  }
  PipelineEvents events(l.schedule, l.pp, l.vpp, std::move(all));
  return events.seconds(static_cast<int64_t>(micro_batches(l)));
}

// A stage's idle time is the others' work as far as closed forms say so (c.bubble), else transfers.
void LayoutModel::split_events(const Layout& l, const StageTimes& t, const Step& step, LayoutCost& c) const {
  const Step::Kind& own = step.kinds[step.slow];
  const double m = micro_batches(l),
               device = own.all() + own.moved - t.of(step.slowest().counts, &SectionTime::host);
  double idle = step.events - m * (device + boundaries_of(l, t, step));
  c.host = std::clamp(launched(l, step.slowest(), t, own) - m * device, 0.0, std::max(0.0, idle));
  idle -= c.host;
  c.bubble = std::min(c.bubble, idle);
  c.pp = idle - c.bubble;
}

// Fill and drain pass every other stage once.
void LayoutModel::add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                               LayoutCost& c) const {
  add_waits(l, at, t, step, c);
  const double moved = micro_batches(l) * step.kinds[step.slow].moved;
  c.pp += moved;
  if (!on_cores() || moved > 0) return;
  const double slower = machine_[Coef::overlap_slowdown].value;
  c.slowdown += micro_batches(l) * transfers_of(step.slowest(), step) * slower / (1 + slower);
}

// c.pp: beyond the transfers that the cores make themselves.
void LayoutModel::add_waits(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                            LayoutCost& c) const {
  if (rolls()) return add_rollout(l, step, c);
  const double p = l.pp, v = l.vpp, m = micro_batches(l);
  const StageKind& slow = step.slowest();
  const Step::Kind& own = step.kinds[step.slow];
  const double slowest = own.all() + own.moved;
  // An idle stage gathers ahead. Its last reductions come after it has sent its gradient; with several chunks
  // the next one waits for them.
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
  if (step.events > 0) return split_events(l, t, step, c);
  const double link = link_of(step);
  double fill = 0;
  for (size_t i = 0; i < step.far.size(); ++i) {
    const CutRange& cut = step.stages->cuts[i];
    const double crossings = at.pp < p ? std::floor(cut.end / at.pp) - std::floor(cut.begin / at.pp) : 0;
    fill += 2 * (crossings * step.far[i] + (cut.end - cut.begin - crossings) * step.near[i]);
  }
  fill = std::max(0.0, fill - own.moved);  // transfers that the cores make are part of their work
  // The steady period of a micro-batch is the slowest stage's time, the busiest link's, or the round trip
  // over the micro-batches in flight (the number of stages), whichever is longest.
  const double round = wait + slowest + fill;
  double period = std::max(slowest, link);
  double forward = own.waits.forward;
  for (const PartCount& part : slow.counts) forward += part.count * t.parts[part.part].forward.seconds;
  // Stream gradients have one buffer: the next arrive when the last have left.
  const double backward = slowest - forward, early = own.waits.prefetched_backward;
  double arriving = backward - early;
  const bool first = slow.chunks.front().enters < 0, last = slow.chunks.back().leaves < 0;
  for (const StageChunk& chunk : slow.chunks) {
    if (!last) arriving += chunk.times * step.far[chunk.leaves];
    // With several stages on a host, at most one of two neighbours is on another host.
    const bool near = !last && at.pp > 1;
    if (!first) arriving += chunk.times * (near ? step.near : step.far)[chunk.enters];
  }
  switch (l.schedule) {
    case PipelineSchedule::gpipe:
      period = std::max(forward, link) + std::max(backward, arriving);
      break;
    case PipelineSchedule::one_f_one_b:
      period = std::max({period, round / p, arriving});
      break;
    case PipelineSchedule::interleaved:  // stages run (p - 1) + (v - 1) p + 1 chunks ahead on average, plus
                                         // one
      // With slow transfers memory is the limit: a micro-batch arrives only where another one's gradient has
      // left, after passing through all chunks but one (pipeline_events_test.cpp).
      period = std::max({period, round / (p + 1 / v), arriving,
                         ((v - 1) * p + 1) * 0.5 * fill / (p * v - 1) + backward / v});
      break;
    case PipelineSchedule::zb_h1:
      break;
  }
  const double steady = std::max(0.0, m - 1);
  c.pp = fill + steady * (period - slowest);
  if (l.schedule != PipelineSchedule::zb_h1) return;
  // Weight gradients of other micro-batches fill two thirds of the bubble, if there are enough: the stage's
  // own while it waits, and those that others postpone. `urgent` is the rest of a stage, with its own waits,
  // since what hid under weight gradients does not get faster.
  double urgent = 0;
  for (size_t i = 0; i < step.kinds.size(); ++i)
    urgent += step.others(i) * (step.kinds[i].urgent + idle(step.kinds[i].urgent_waits));
  const double own_urgent = own.urgent + own.urgent_waits.all(), filled = std::min(1.0, m / p);
  const double busy =
      std::max(0.0, wait - filled * (wait - urgent) - filled * (p - 1) * (slowest - own_urgent));
  // If a link or the round trip sets the pace, weight gradients delay no stage.
  const double paced = std::max(link, (urgent + own_urgent + fill) / p) - slowest;
  const bool at_work = busy >= urgent + steady * paced;
  c.bubble = at_work ? busy : urgent;
  c.pp = fill + (at_work ? 0 : steady * paced);
}

}  // namespace isobar::perf
