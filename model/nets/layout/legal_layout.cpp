#include "model/nets/layout/legal_layout.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/spec/validate.h"
#include "model/plan/layout.h"
#include "model/plan/schedule.h"

namespace isobar::nets {
namespace {

struct Legality {
  const RunSpec& s;
  void refuse_unless(bool ok, const char* key, const std::string& what, const std::string& mend) const {
    if (!ok) throw ConfigError(s.file, key, what, mend);
  }
  /// The sizes from 1 to `most` that `legal` accepts, nearest to `size` on both sides.
  template <class Legal>
  static std::string nearest(int64_t size, int64_t most, const Legal& legal) {
    int64_t below = std::min(size, most), above = size;
    while (below > 1 && !legal(below)) --below;
    while (above <= most && !legal(above)) ++above;
    return "the nearest that can be run " +
           (above <= most && above != below ? "are " + std::to_string(below) + " and " + std::to_string(above)
                                            : "is " + std::to_string(below));
  }
};

void check_stages(const Legality& check, const NetLimits& n) {
  const LayoutSpec& l = check.s.layout;
  const std::vector<int64_t>& stages = l.stages;
  if (stages.empty()) return;
  const auto count = static_cast<int64_t>(stages.size());
  int64_t blocks = 0;
  for (const int64_t b : stages) blocks += b;
  const std::string parts = std::to_string(n.inner_parts);
  check.refuse_unless(l.pp * l.vpp == 1 || l.pp * l.vpp == count, "layout.stages",
                      "lists " + std::to_string(count) + " chunks, and layout.pp and layout.vpp make " +
                          std::to_string(l.pp * l.vpp),
                      "give a number for each, or leave it out");
  check.refuse_unless(
      blocks == n.inner_parts, "layout.stages",
      "adds up to " + std::to_string(blocks) + " blocks, the net has " + parts + " between its ends",
      "let the numbers add up to " + parts);
  for (int64_t i = 1; i + 1 < count; ++i)
    check.refuse_unless(stages[i] > 0, "layout.stages", "leaves a chunk between the ends without a block",
                        "give it one or more; only the first and the last can do without");
}

}  // namespace

NetLimits limits_of(const RunSpec& spec) {
  NetLimits n = limits_of(spec.net);
  n.only_stages = static_cast<int64_t>(spec.layout.stages.size());
  return n;
}

void check_layout(const RunSpec& s) {
  const Legality check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  const LayoutSpec& l = s.layout;
  const NetLimits n = limits_of(s);
  plan::order_tokens(l, s.file);
  const auto cuts_heads = [&](int64_t tp) { return tp_cuts(n, tp); };
  check.refuse_unless(l.tp == 1 || n.no_tp.empty(), "layout.tp", n.no_tp, "set it to 1, and use layout.dp");
  std::string sizes;
  int64_t most = kMostRanks;
  for (size_t i = 0; i < n.tp.size(); ++i) {
    sizes += (i == 0 ? "" : i + 1 < n.tp.size() ? ", " : " and ") + n.tp[i].name + " = " + str(n.tp[i].value);
    most = std::min(most, n.tp[i].value);
  }
  check.refuse_unless(cuts_heads(l.tp), "layout.tp", str(l.tp) + " does not divide " + sizes,
                      Legality::nearest(l.tp, most, cuts_heads));
  check.refuse_unless(l.cp == 1 || n.no_cp.empty(), "layout.cp", n.no_cp, "set it to 1");
  const auto fills = [&](int64_t cp) { return cp_cuts(n, cp); };
  check.refuse_unless(fills(l.cp), "layout.cp",
                      str(l.cp) + " is more than the " + str(n.most_cp()) +
                          (n.bands > 0 ? " rows of the coarsest grid" : " tokens"),
                      Legality::nearest(l.cp, n.most_cp(), fills));
  check.refuse_unless(kind_cuts(n, l.cp, s.policy.cp_kind), "policy.cp_kind",
                      name_of(s.policy.cp_kind) + " is a way of attention over all tokens, and a " +
                          s.net.kind() + " has none",
                      "leave it out");
  if (s.policy.cp_kind == CpKind::ring) {
    const std::string other = "take policy.cp_kind allgather or ulysses";
    check.refuse_unless(l.cp == 1 || n.no_runs.empty(), "policy.cp_kind", n.no_runs, other);
    const auto halves = [&](int64_t cp) { return ring_cuts(n, cp); };
    check.refuse_unless(
        halves(l.cp), "layout.cp",
        "a ring gives each of " + str(l.cp) + " ranks two runs of the " + str(n.tokens) + " tokens",
        Legality::nearest(l.cp, n.tokens, halves) + ", or " + other);
  }
  check.refuse_unless(l.ep == 1 || n.experts > 0, "layout.ep", "divides experts, and the net has none",
                      "set it to 1, or net.num_experts");
  const auto divides = [&](int64_t ep) { return ep_divides(n, ep, l.dp, l.cp); };
  check.refuse_unless(divides(l.ep), "layout.ep",
                      str(l.ep) + " must divide net.num_experts = " + str(n.experts) +
                          " and layout.dp * layout.cp = " + str(l.dp * l.cp),
                      Legality::nearest(l.ep, n.experts, divides));
  const bool ulysses = s.policy.cp_kind == CpKind::ulysses;
  const int64_t heads = n.kv_heads / l.tp;
  const auto cuts_heads_of_tp = [&](int64_t cp) { return ulysses_cuts(n, l.tp, cp); };
  check.refuse_unless(!ulysses || cuts_heads_of_tp(l.cp), "layout.cp",
                      "ulysses gives each of " + str(l.cp) + " ranks as many heads, and net.num_kv_heads / " +
                          "layout.tp is " + str(heads),
                      Legality::nearest(l.cp, heads, cuts_heads_of_tp) + ", or use another policy.cp_kind");
  check.refuse_unless(l.pp == 1 || n.no_pp.empty(), "layout.pp", n.no_pp, "set it to 1, and use layout.dp");
  check_stages(check, n);
  const auto deep_enough = [&](int64_t pp) { return stages_fill(n, pp, l.vpp); };
  check.refuse_unless(deep_enough(l.pp), "layout.pp",
                      str(l.pp) + " stages of " + str(l.vpp) + " chunks need as many parts, the net has " +
                          str(n.inner_parts) + " between its ends",
                      Legality::nearest(l.pp, n.inner_parts, deep_enough));
  const int64_t m = s.micro_batches();
  const bool interleaved = s.policy.schedule == PipelineSchedule::interleaved,
             zero_bubble = s.policy.schedule == PipelineSchedule::zb_h1;
  const ZeroBubbleNeeds has = zero_bubble_needs(l.pp, s.policy.recomputes(), s.policy.zero,
                                                s.policy.main_grads_dtype == GradientType::fp32);
  check.refuse_unless(l.vpp == 1 || l.pp > 1, "layout.vpp", "needs a pipeline: layout.pp is 1",
                      "set layout.vpp to 1");
  check.refuse_unless(l.vpp == 1 || interleaved, "policy.schedule",
                      name_of(s.policy.schedule) + " runs one chunk a stage, layout.vpp is " + str(l.vpp),
                      "use interleaved, or set layout.vpp to 1");
  const bool rolls = s.train.rollout > 1;
  check.refuse_unless(
      !rolls || plan::runs_rollouts(s.policy.schedule), "policy.schedule",
      name_of(s.policy.schedule) + " runs no roll-outs, and train.rollout is " + str(s.train.rollout),
      "use 1f1b or gpipe, with layout.vpp 1");
  check.refuse_unless(
      fills_replay(s.train, m), "policy.micro_batch",
      "makes " + str(m) + " micro-batches, and a replay buffer takes what a step predicts from one",
      "lower train.global_batch to layout.dp * policy.micro_batch, or raise layout.dp");
  // It would run, but hold more memory than 1f1b without bubbles to fill.
  check.refuse_unless(!zero_bubble || has.pipeline, "policy.schedule",
                      "zb-h1 fills a pipeline's bubbles, and layout.pp is 1", "set it to 1f1b");
  const bool chunked = s.policy.recompute == Recompute::none;  // edge chunks already recompute
  check.refuse_unless(!zero_bubble || has.activations, chunked ? "policy.edge_chunks" : "policy.recompute",
                      "zb-h1 needs the activations again for its late weight gradients, and " +
                          (chunked ? "an edge chunk" : name_of(s.policy.recompute) + " recomputation") +
                          " throws them away",
                      std::string("set it to ") + (chunked ? "1" : "none") + ", or policy.schedule to 1f1b");
  check.refuse_unless(!interleaved || l.vpp > 1 || l.pp == 1, "policy.schedule",
                      "interleaved needs several chunks a stage", "set layout.vpp to 2 or more, or use 1f1b");
  check.refuse_unless(
      l.vpp == 1 || interleaves(m, l.pp), "policy.micro_batch",
      "interleaved stages need a multiple of layout.pp = " + str(l.pp) + " micro-batches, not " + str(m),
      "choose it so that train.global_batch / (layout.dp * policy.micro_batch) is " +
          str(std::max<int64_t>(1, m / l.pp) * l.pp) + " or " + str((m / l.pp + 1) * l.pp));
  check.refuse_unless(
      !s.policy.sequence_parallel || l.tp == 1 || sequence_cuts(n, s.micro_batch(), l.cp, l.tp),
      "policy.sequence_parallel",
      n.no_sequence.empty() ? "there are fewer rows than layout.tp" : n.no_sequence, "set it to false");
  check.refuse_unless(!zero_bubble || has.fp32_gradients, "policy.main_grads_dtype",
                      "zb-h1 adds its late weight gradients to whole ones in fp32",
                      "set it to fp32, or policy.schedule to 1f1b");
  // Late weight gradients would need a buffer or a reduction for each micro-batch.
  check.refuse_unless(!zero_bubble || has.whole_gradients, "policy.zero",
                      "zb-h1 keeps whole gradients until its late weight gradients are in",
                      "set it to 1, or policy.schedule to 1f1b");
}

}  // namespace isobar::nets
