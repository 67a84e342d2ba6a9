#include "model/nets/step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "model/nets/declare.h"
#include "model/nets/layout/chunk.h"
#include "model/nets/parts.h"
#include "model/plan/parameters.h"
#include "model/plan/schedule.h"

namespace isobar::nets {
namespace {

std::variant<plan::AdamAttrs, plan::SgdAttrs> optimizer_of(const TrainSpec& t) {
  const auto real = [](double x) { return static_cast<float>(x); };
  if (t.optimizer == OptimizerKind::sgd)
    return plan::SgdAttrs{
        .momentum = real(t.momentum), .weight_decay = real(t.weight_decay), .clip = real(t.grad_clip)};
  return plan::AdamAttrs{.beta1 = real(t.beta1),
                         .beta2 = real(t.beta2),
                         .eps = real(t.adam_eps),
                         .weight_decay = real(t.weight_decay),
                         .decoupled = t.optimizer == OptimizerKind::adamw,
                         .clip = real(t.grad_clip)};
}

plan::ParameterPolicy policy_of(const RunSpec& spec, DType act) {
  const PolicySpec& p = spec.policy;
  const auto bucket = static_cast<int64_t>(p.bucket_mb * 1e6) / size_of(DType::f32);
  return {.zero = p.zero,
          .act = act,
          .grads = p.main_grads_dtype == GradientType::bf16 ? DType::bf16 : DType::f32,
          .bucket = std::max<int64_t>(1, bucket),
          .optimizer = optimizer_of(spec.train),
          .ema = static_cast<float>(spec.train.ema),
          .offload = p.offload_optimizer,
          .offload_params = p.offload_parameters,
          .overlap = p.overlap};
}

class Step {
 public:
  Step(const RunSpec& spec, int rank, const plan::Workspace& workspace, plan::PlanUse use)
      : s_(spec),
        b_(rank, static_cast<int>(spec.layout.world()), workspace),
        at_(b_, spec, rank, spec.net.tokens()),
        e_(b_, spec),
        params_(b_, policy_of(spec, spec.net.recorded() ? DType::f32 : e_.amp)),
        stages_(spec, rank),
        net_(make_net(e_, at_)) {
    e_.use = use;
  }

  plan::Plan build() {
    plan::Plan& plan = b_.plan;
    plan.parts = parts_of(s_.net);
    plan.streams = net_->streams();
    plan.batch = net_->batch();
    if (RollOut* const roll = net_->roll_out()) plan.feedback = roll->feedback();
    plan.metrics_named = net_->metrics();
    declare_parameters(b_, s_, at_, params_, stages_, net_->parts());
    plan.metrics = b_.io("metrics", DType::f32,
                         plan.metrics_named.back().first + plan.metrics_named.back().count + net_->tallies());
    plan.grad_norm2 = b_.io("grad_norm2", DType::f32, 1);
    plan.scalars = b_.io("scalars", DType::f32, plan::kScalars);
    if (replays()) plan.replayed = b_.io("replayed", DType::f32, plan.feedback.at(0).count);
    ChunkEmitter chunks(e_, *net_, params_, stages_);
    const int init = emit_init(), begin = emit_begin();
    std::vector<Routines> routines;
    std::vector<plan::Invocation> rolled;
    if (rolls())
      rolled = emit_rollouts(chunks, routines);
    else
      for (const Stage& stage : stages_.list()) routines.push_back(emit_chunk(chunks, stage));
    const int optimizer = emit_optimizer(chunks);
    if (s_.train.ema > 0) plan.exchange = {{emit_exchange(), 0, 0}};
    const int eval_end = at_.metrics_group >= 0 || net_->metrics_group() >= 0 ? emit_eval_end() : -1;
    plan.init = {{init, 0, 0}};
    plan.train.push_back({begin, 0, 0});
    if (rolls())
      plan.train.insert(plan.train.end(), rolled.begin(), rolled.end());
    else
      list_train(routines);
    plan.train.push_back({optimizer, 0, 0});
    for (std::vector<plan::Invocation>& shorter : plan.shorter) {
      shorter.insert(shorter.begin(), {begin, 0, 0});
      shorter.push_back({optimizer, 0, 0});
    }
    plan.eval.push_back({begin, 0, 0});
    if (rolls())
      for (int k = 0; k < steps(); ++k) plan.eval.push_back({routines[0].steps[k], 0, slot_of(0, k)});
    else
      for (const Routines& r : routines) plan.eval.push_back({r.forward, 0, 0});
    if (eval_end >= 0) plan.eval.push_back({eval_end, 0, 0});
    return std::move(plan);
  }

 private:
  struct Routines {  // of a chunk
    int forward;
    std::vector<int> backward;  // by micro-batch; of a split backward, the input part
    std::vector<int> weight;    // the weight part
    std::vector<int> steps;     // forward, by step of a roll-out
  };

  // ---- roll-outs ----
  bool rolls() const { return s_.train.rollout > 1; }
  int steps() const { return static_cast<int>(s_.train.rollout); }
  // Predictions are sent to the first stage, which reads them, from the last.
  bool replays() const {
    return s_.train.replay_capacity > 0 &&
           std::any_of(stages_.list().begin(), stages_.list().end(),
                       [](const Stage& s) { return s.is_first || s.is_last; });
  }
  int learnt() const { return static_cast<int>(s_.learnt_steps()); }
  // A micro-batch's slots are adjacent, one a step; steps without a backward pass need none.
  int32_t slot_of(int64_t micro, int step) const {
    const auto of_step = learnt() > 1 ? step : 0;
    return static_cast<int32_t>(micro % together() * learnt() + of_step);
  }
  int64_t together() const { return plan::rolling_together(s_.policy.schedule, at_.pp, micro_batches()); }
  /// Step k of a roll-out of `of` steps.
  void at_step(int k, int of) {
    const bool all = learnt() > 1;
    e_.roll = {.step = k,
               .counted = all ? of : 1,
               .first = k == 0,
               .second = k == 1 && s_.history() > 1,
               .last = k == of - 1,
               .all = all,
               .slots_back = all ? 1 : 0};
  }
  std::string name_of_step(int of) const {
    const RollStep& r = e_.roll;
    const char* const step = r.first    ? ".first_step"
                             : r.last   ? ".last_step"
                             : r.second ? ".second_step"
                                        : ".step";
    return step + (of < steps() ? ".of_" + std::to_string(of) : "");
  }

  // Each step has its own random numbers.
  bool draws() const {
    return std::any_of(b_.plan.ops.begin(), b_.plan.ops.end(),
                       [](const plan::Op& op) { return op.kind == plan::OpKind::dropout; });
  }

  /// Equal routines are emitted once: all middle steps share one.
  std::vector<int> emit_steps(ChunkEmitter& chunks, int of) {
    // With one slot for all steps, each step's tensors have a place of their own.
    const bool alike = learnt() > 1 || std::none_of(b_.plan.batch.begin(), b_.plan.batch.end(),
                                                    [](const plan::BatchTensor& t) {
                                                      return t.step > 0 && t.role != plan::BatchRole::target;
                                                    });
    std::vector<int> forward;
    for (int k = 0; k < of; ++k) {
      at_step(k, of);
      const bool middle = k > 1 && k < of - 1 && alike && !draws();
      forward.push_back(middle ? forward.back()
                               : chunks.forward(stages_.list()[0], "forward" + name_of_step(of)));
    }
    return forward;
  }

  std::vector<plan::Invocation> emit_rollout(ChunkEmitter& chunks, const std::vector<int>& forward) {
    const int of = static_cast<int>(forward.size()), back = learnt() > 1 ? of : 1;
    const int backwards = micro_batches() * back;
    std::map<std::tuple<bool, bool, bool, bool, bool, int>, int> known;
    std::vector<plan::Invocation> out;
    int gone_back = 0;
    const bool own = draws();
    for (const plan::Action& a :
         plan::rollout_actions(s_.policy.schedule, static_cast<int>(at_.pp), micro_batches(), of, back)) {
      int routine = forward[a.step];
      if (a.type == plan::Action::Type::backward) {
        at_step(a.step, of);
        const bool accumulate = gone_back > 0, reduce = ++gone_back == backwards;
        const auto [place, fresh] = known.try_emplace(
            {e_.roll.first, e_.roll.second, e_.roll.last, accumulate, reduce, own ? e_.roll.step : 0});
        const char* const which = backwards == 1 ? "" : !accumulate ? ".first" : reduce ? ".last" : ".middle";
        if (fresh)
          place->second = chunks.backward(
              stages_.list()[0], std::string("backward") + which + name_of_step(of), accumulate, reduce);
        routine = place->second;
      }
      out.push_back({routine, a.micro, slot_of(a.micro, a.step)});
    }
    return out;
  }

  /// For all roll-out lengths of a run; `routines` are the longest's.
  std::vector<plan::Invocation> emit_rollouts(ChunkEmitter& chunks, std::vector<Routines>& routines) {
    b_.share_saved();
    b_.plan.slots = {together() * learnt()};
    routines.push_back({.forward = -1, .backward = {}, .weight = {}, .steps = emit_steps(chunks, steps())});
    const std::vector<plan::Invocation> longest = emit_rollout(chunks, routines[0].steps);
    for (int of = 1; of < steps() && s_.train.rollout_every > 0; ++of)
      b_.plan.shorter.push_back(emit_rollout(chunks, emit_steps(chunks, of)));
    return longest;
  }

  int micro_batches() const { return static_cast<int>(s_.micro_batches()); }

  // ---- a chunk's routines ----
  Routines emit_chunk(ChunkEmitter& chunks, const Stage& stage) {
    Routines r;
    const std::string suffix = stages_.list().size() > 1 ? "." + std::to_string(stage.chunk) : "";
    r.forward = chunks.forward(stage, "forward" + suffix);
    if (!e_.split) {
      r.backward = by_micro("backward", suffix, [&](const std::string& name, bool accumulate, bool reduce) {
        return chunks.backward(stage, name, accumulate, reduce);
      });
      return r;
    }
    r.backward = by_micro("backward_input", suffix, [&](const std::string& name, bool accumulate, bool) {
      return chunks.backward(stage, name, accumulate, false);
    });
    r.weight =
        by_micro("backward_weight", suffix, [&](const std::string& name, bool accumulate, bool reduce) {
          return chunks.backward_weight(stage, name, accumulate, reduce);
        });
    return r;
  }

  // The first micro-batch writes gradients, later ones add, and the last also reduces.
  template <class Emit>  // (name, accumulate, reduce) -> routine
  std::vector<int> by_micro(const std::string& name, const std::string& suffix, const Emit& emit) const {
    const int m = micro_batches();
    if (m == 1) return {emit(name + suffix, false, true)};
    std::vector<int> out(m);
    out[0] = emit(name + ".first" + suffix, false, false);
    const int middle = m > 2 ? emit(name + ".middle" + suffix, true, false) : -1;
    for (int i = 1; i < m - 1; ++i) out[i] = middle;
    out[m - 1] = emit(name + ".last" + suffix, true, true);
    return out;
  }

  // ---- the order of a step ----
  void list_train(const std::vector<Routines>& routines) {
    plan::Plan& plan = b_.plan;
    const auto vpp = static_cast<int>(s_.layout.vpp);
    const auto actions =
        plan::schedule_actions(s_.policy.schedule, static_cast<int>(at_.pp), at_.at.pp, micro_batches(), vpp);
    plan.slots = plan::in_flight(actions, vpp);
    for (const plan::Action& a : actions) {
      const auto slot = static_cast<int32_t>(a.micro % plan.slots[a.chunk]);
      const Routines& r = routines[a.chunk];
      const int routine = a.type == plan::Action::Type::forward           ? r.forward
                          : a.type == plan::Action::Type::backward_weight ? r.weight[a.micro]
                                                                          : r.backward[a.micro];
      plan.train.push_back({routine, a.micro, slot});
    }
  }

  // ---- small routines ----
  // Initial values depend only on seed and name, so every rank computes its own.
  int emit_init() {
    const int r = b_.begin("init", plan::Pass::init);
    params_.copies("params");
    b_.end();
    return r;
  }

  int emit_exchange() {
    const int r = b_.begin("exchange", plan::Pass::init);
    params_.exchange("ema");
    b_.end();
    return r;
  }

  int emit_begin() {
    const int r = b_.begin("begin", plan::Pass::begin);
    b_.emit<plan::OpKind::zero>("metrics/zero", {.count = b_.plan.metrics.count}, {}, {b_.plan.metrics});
    b_.end();
    return r;
  }

  int emit_eval_end() {
    const int r = b_.begin("eval_end", plan::Pass::eval_end);
    reduce_metrics();
    b_.end();
    return r;
  }

  // Means over dp; stages without the loss contribute zero and receive it.
  void reduce_metrics() {
    const plan::View& metrics = b_.plan.metrics;
    const auto sum = [&](const std::string& path, int group, plan::Lane lane) {
      if (group >= 0) b_.emit<plan::OpKind::all_reduce>(path, {.group = group}, {metrics}, {metrics}, lane);
    };
    sum("metrics/samples/all_reduce", net_->metrics_group(), plan::Lane::cp);
    sum("metrics/all_reduce", at_.metrics_group, plan::Lane::dp);
  }

  int emit_optimizer(ChunkEmitter& chunks) {
    const int r = b_.begin("optimizer", plan::Pass::optimizer);
    plan::Plan& p = b_.plan;
    chunks.send_replayed_to_first(stages_);
    net_->before_optimizer(params_);
    params_.squared_norm(p.grad_norm2);
    if (at_.norm_group >= 0)
      b_.emit<plan::OpKind::all_reduce>("optimizer/grad_norm/all_reduce", {.group = at_.norm_group},
                                        {p.grad_norm2}, {p.grad_norm2}, plan::Lane::dp);
    if (e_.amp == DType::f16)
      b_.emit<plan::OpKind::loss_scale>(
          "optimizer/loss_scale",
          {.least = static_cast<float>(s_.train.min_loss_scale), .window = s_.train.loss_scale_window},
          {p.grad_norm2, p.scalars}, {p.grad_norm2, p.scalars});
    params_.update(p.scalars, s_.train.grad_clip > 0 ? p.grad_norm2 : plan::View{});
    reduce_metrics();
    net_->after_metrics();
    b_.end();
    return r;
  }

  const RunSpec& s_;
  plan::Builder b_;
  Sharding at_;
  Emission e_;
  plan::Parameters params_;
  Stages stages_;
  std::unique_ptr<Net> net_;
};

}  // namespace

plan::Plan emit_step(const RunSpec& spec, int rank, const plan::Workspace& workspace, plan::PlanUse use) {
  return Step(spec, rank, workspace, use).build();
}

}  // namespace isobar::nets
