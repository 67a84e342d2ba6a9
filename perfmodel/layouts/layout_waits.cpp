#include "perfmodel/layouts/layout_waits.h"

#include <algorithm>
#include <cmath>

namespace isobar {
namespace {

class Waits {
 public:
  Waits(const UnitTimes& units, const UnitStage& stage, const UnitPasses& passes, double slowdown)
      : u_(units),
        stage_(stage),
        c_(passes),
        slowdown_(slowdown),
        chunks_(static_cast<double>(stage.chunks)),
        backward_gather_(u_.gather_block - (c_.reads_cut_vectors ? 0 : u_.gather_cut_vectors)) {
    w_.backward = w_.added = chunks_ * stage.blocks * c_.add;
  }

  /// Nothing hides: a gather begins when the memory is free that the part before has been read from, and
  /// reductions follow the pass, one unit's added while the next one's come.
  UnitWaits apart(bool gathers) {
    if (gathers) {
      w_.forward = gathered_apart(stage_.first ? u_.gather_embed : 0, u_.gather_block, c_.after_forward) +
                   (stage_.last ? std::max(0.0, u_.gather_head - c_.after_forward) : 0);
      const double forward = w_.prefetched;
      w_.backward += gathered_apart(stage_.last ? u_.gather_head : 0, backward_gather_, c_.after_backward);
      w_.prefetched_backward = w_.prefetched - forward;
    }
    const double left =
        u_.reduce - std::min(u_.reduce, w_.added) * (1 - chunks_ / std::max(chunks_, u_.units));
    w_.backward += left;
    reduced(left + (c_.split ? w_.added : 0));
    return w_;
  }

  /// ZeRO 2: reductions hide under what is left of the chunk's backward pass.
  UnitWaits reductions_beside() {
    const double slower = 1 + slowdown_;
    double left = 0;
    for (const UnitTimes::Chunk& chunk : u_.chunks)
      left += chunk.times * chunk.exposed(slower * reducing_block(), slower * reducing_embed());
    w_.slowdown = slowdown_ / slower * std::max(0.0, u_.reduce - left);
    w_.backward += left + w_.slowdown;
    reduced(c_.split ? w_.backward : left);
    return w_;
  }

  /// ZeRO 3: beside each part the one before it is reduced and the next one gathered.
  UnitWaits all_beside() {
    const double nb = stage_.blocks, inner = chunks_ * (nb - 1);
    w_.forward =
        begun(stage_.first ? u_.gather_embed : 0, c_.embed_forward, c_.block_forward, u_.gather_block) +
        beside(inner - (stage_.first || nb <= 1 ? 0 : 1), c_.block_forward, u_.gather_block) +
        (stage_.last ? beside(1, c_.block_forward, u_.gather_head) : 0);

    // Of blocks that are recomputed together one has come under the group before it; the others are waited
    // for.
    const double at_once = chunks_ * (nb - std::ceil(nb / c_.group));
    const double under = c_.split ? 0 : u_.reduce_block;
    const double pass = c_.block_backward + (c_.split ? -c_.block_weight : c_.add);
    const double forward = w_.prefetched;
    w_.backward += begun(stage_.last ? u_.gather_head : 0, c_.head_backward - (c_.split ? c_.head_weight : 0),
                         pass, backward_gather_);
    w_.prefetched_backward = w_.prefetched - forward;
    w_.backward +=
        beside(inner - (stage_.last || nb <= 1 ? 0 : 1) - at_once, pass, backward_gather_ + under) +
        at_once * backward_gather_ + beside(at_once, pass, under);

    const double last = (chunks_ - (stage_.first ? 1 : 0)) * u_.reduce_block + u_.reduce_embed;
    const double reductions = (c_.split ? beside(inner, reducing_block(), u_.reduce_block) : 0) +
                              (stage_.last ? beside(1, reducing_block(), u_.reduce_head) : 0) +
                              (stage_.first ? beside(1, reducing_embed(), u_.reduce_block) : 0) + last;
    w_.backward += reductions;
    reduced(c_.split ? reductions + w_.added : last);
    return w_;
  }

 private:
  // Passes under which gradients are reduced
  double reducing_block() const { return c_.add + (c_.split ? c_.block_weight : c_.block_backward); }
  double reducing_embed() const { return c_.split ? c_.embed_weight : c_.embed_backward; }

  // By how much `times` parts become longer, each with a collective beside it.
  double beside(double times, double compute, double collective) {
    if (times <= 0 || collective <= 0) return 0;
    const double slow = slowdown_ * std::min(compute, collective / (1 + slowdown_));
    w_.slowdown += times * slow;
    return times * (slow + std::max(0.0, collective - compute - slow));
  }

  // The first part of a pass is waited for, and the second comes under it; a stage that was idle has both.
  // `end`: the gather of an embedding or head that the pass begins with.
  double begun(double end, double end_pass, double block_pass, double gather) {
    const double first = end > 0 ? end : gather;
    const double second = end > 0             ? beside(1, end_pass, gather)
                          : stage_.blocks > 1 ? beside(1, block_pass, gather)
                                              : 0;
    w_.prefetched += first + second;
    return first + second + (chunks_ - 1) * gather;
  }

  double gathered_apart(double end, double block, double after) {
    const double nb = stage_.blocks, left = std::max(0.0, block - after);
    const double first = end > 0 ? end + block : block + (nb > 1 ? left : 0);
    w_.prefetched += first;
    return first + (chunks_ - 1) * block + (chunks_ * (nb - 1) - (end > 0 || nb <= 1 ? 0 : 1)) * left;
  }

  // Reductions that are still to be waited for when the gradient has gone to the stage before; in a pass of
  // its own all of them belong to the weight gradients.
  void reduced(double seconds) { (c_.split ? w_.weight : w_.behind) = seconds; }

  const UnitTimes& u_;
  const UnitStage& stage_;
  const UnitPasses& c_;
  const double slowdown_, chunks_, backward_gather_;
  UnitWaits w_;
};

}  // namespace

UnitWaits waits_of(const UnitTimes& units, const UnitStage& stage, const UnitPasses& passes,
                   const WaitPolicy& policy) {
  Waits waits(units, stage, passes, policy.slowdown);
  if (!policy.overlap) return waits.apart(policy.zero == 3);
  return policy.zero == 2 ? waits.reductions_beside() : waits.all_beside();
}

}  // namespace isobar
