// What a pipeline costs beyond the work of its slowest stage: filling and draining, and transfers.
#include <algorithm>

#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/cost.h"

namespace isobar {

// Filling and draining pass every other stage once.
void LayoutModel::add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                               LayoutCost& c) const {
  const double p = l.pp, v = l.vpp, m = micro_batches(l);
  const Rank& slow = step.slowest();
  const double slowest = step.micro[step.slow];
  const auto depth = static_cast<double>(spec_.net.blocks());
  const auto whole = [&](double SectionTime::*member) {
    return t.of_blocks(depth, member) + t.of_ends(true, true, member);
  };
  // A stage that has nothing to do gathers what it will need first. What it reduces last, it reduces after it
  // has sent its gradient on; with several chunks the next one has to wait for that.
  double units = 0;
  for (size_t i = 0; i < step.ranks.size(); ++i)
    units += (step.times[i] - (i == step.slow ? 1 : 0)) *
             (step.waits[i].all() - step.waits[i].prefetched - (l.vpp > 1 ? 0.5 : 1) * step.waits[i].behind);
  const double wait = whole(&SectionTime::seconds) - slow.of(t, &SectionTime::seconds) + units;
  const double ends =
      t.of_ends(true, true, &SectionTime::seconds) - t.of_ends(slow.first, slow.last, &SectionTime::seconds);
  c.bubble = (wait - ends) / v + ends;
  const auto transfer = [&](double per_host) {
    return isobar::seconds(
        count_collective(OpKind::send, t.sections->stream.at(l.micro_batch), 2, {2, per_host}, k_, where_),
        k_);
  };
  const double hosts = p / at.pp, near = transfer(at.pp > 1 ? 2 : 1), far = hosts > 1 ? transfer(1) : near;
  const double crossings = hosts > 1 ? hosts - 1 + (v - 1) * hosts : 0;
  const double fill = 2 * (crossings * far + (p * v - 1 - crossings) * near);
  // Once it is full, a micro-batch takes as long as the slowest stage, or as a link carries what one stage
  // sends, or as its round trip takes over how many are under way: as many as there are stages, none to
  // spare.
  const double round = wait + slowest + fill, link = v * far;
  double period = std::max(slowest, link);
  const double forward = static_cast<double>(slow.blocks) * t.block.forward.seconds +
                         (slow.first ? t.embed.forward.seconds : 0) +
                         (slow.last ? t.head.forward.seconds : 0) + step.waits[step.slow].forward;
  // Gradients of the stream have one buffer: the next arrives when the last has left.
  const double arrivals = slow.first || slow.last ? 1 : 2;
  const double backward = slowest - forward, early = step.waits[step.slow].prefetched_backward;
  const double arriving = backward - early + v * arrivals * far;
  switch (l.schedule) {
    case ScheduleKind::gpipe:
      period = std::max(forward, far) + std::max(backward, arriving);
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
  // stage's own while it waits, and those that the others put off.
  double own = slow.of(t, &SectionTime::weight), others = whole(&SectionTime::weight) - own;
  own += step.waits[step.slow].weight;
  for (size_t i = 0; i < step.ranks.size(); ++i)
    others += (step.times[i] - (i == step.slow ? 1 : 0)) * step.waits[i].weight;
  const double busy = std::max(0.0, wait - (others + (p - 1) * own) * std::min(1.0, m / p));
  // Where a link or the round trip sets the pace nobody waits for weight gradients at all.
  const double paced = std::max(link, (round - own - others) / p) - slowest;
  const bool at_work = busy >= wait - others + steady * paced;
  c.bubble = at_work ? busy : wait - others;
  c.pp = fill + (at_work ? 0 : steady * paced);
}

}  // namespace isobar
