#include "model/nets/transformer.h"

#include <memory>

#include "model/nets/block.h"
#include "model/nets/declare.h"
#include "model/nets/language.h"
#include "model/nets/parts.h"
#include "model/nets/pixels.h"
#include "model/nets/stages.h"
#include "model/plan/parameters.h"
#include "model/plan/schedule.h"

namespace isobar {
namespace {

class Transformer {
 public:
  Transformer(const RunSpec& spec, int rank, const Workspace& workspace)
      : s_(spec),
        n_(spec.net),
        b_(rank, static_cast<int>(spec.layout.world()), workspace),
        params_(b_, policy_of(spec)),
        act_(act_of(spec)),
        at_(b_, spec, rank),
        emit_(b_, spec, at_, act_),
        D_(n_.embed_dim),
        stages_(b_, spec, rank),
        blocks_(n_.depth) {
    if (n_.language())
      ends_ = std::make_unique<LanguageEnds>(b_, spec, at_, emit_, act_);
    else
      ends_ = std::make_unique<PixelEnds>(b_, spec, at_, emit_, act_);
  }

  Plan build() {
    b_.plan.parts = parts_of(n_);
    for (int32_t i = 1; i < static_cast<int32_t>(b_.plan.parts.size()); ++i)
      b_.plan.streams.push_back({"x", i - 1, i, emit_.stream(), at_.rows * D_});
    declare_parameters(b_, s_, at_, params_, stages_, *ends_, blocks_, final_);
    b_.plan.metrics = b_.io("metrics", DType::f32, ends_->metrics());
    b_.plan.grad_norm2 = b_.io("grad_norm2", DType::f32, 1);
    b_.plan.scalars = b_.io("scalars", DType::f32, kScalars);
    stages_.declare_buffers(at_.rows * D_, emit_.stream());
    const int init = emit_init(), begin = emit_begin();
    const auto m = static_cast<int>(s_.micro_batches());
    std::vector<StageRoutines> routines;
    for (const Stage& stage : stages_.list()) {
      StageRoutines r;
      const std::string suffix = stages_.list().size() > 1 ? "." + std::to_string(stage.chunk) : "";
      r.forward = emit_forward(stage, "forward" + suffix);
      if (emit_.split()) {
        r.backward =
            by_micro(m, "backward_input", suffix, [&](const std::string& name, bool accumulate, bool) {
              return emit_backward(stage, name, accumulate, false);
            });
        r.weight = by_micro(m, "backward_weight", suffix,
                            [&](const std::string& name, bool accumulate, bool reduce) {
                              return emit_backward_weight(stage, name, accumulate, reduce);
                            });
      } else {
        r.backward =
            by_micro(m, "backward", suffix, [&](const std::string& name, bool accumulate, bool reduce) {
              return emit_backward(stage, name, accumulate, reduce);
            });
      }
      routines.push_back(std::move(r));
    }
    const int optimizer = emit_optimizer();
    const int eval_end = at_.metrics_group >= 0 ? emit_eval_end() : -1;

    Plan& plan = b_.plan;
    plan.init = {{init, 0, 0}};
    const auto actions = schedule_actions(s_.policy.schedule, static_cast<int>(at_.pp), at_.at.pp, m,
                                          static_cast<int>(s_.layout.vpp));
    plan.slots = in_flight(actions, static_cast<int>(s_.layout.vpp));
    plan.train.push_back({begin, 0, 0});
    for (const Action& a : actions) {
      const auto slot = static_cast<int32_t>(a.micro % plan.slots[a.chunk]);
      const StageRoutines& r = routines[a.chunk];
      const int routine = a.type == Action::Type::forward           ? r.forward
                          : a.type == Action::Type::backward_weight ? r.weight[a.micro]
                                                                    : r.backward[a.micro];
      plan.train.push_back({routine, a.micro, slot});
    }
    plan.train.push_back({optimizer, 0, 0});
    plan.eval.push_back({begin, 0, 0});
    for (const StageRoutines& r : routines) plan.eval.push_back({r.forward, 0, 0});
    if (eval_end >= 0) plan.eval.push_back({eval_end, 0, 0});
    return std::move(plan);
  }

 private:
  struct StageRoutines {
    int forward;
    std::vector<int> backward;  // by micro-batch; of a split backward, the input part
    std::vector<int> weight;    // the weight part
  };
  struct Final {  // a part whose gradients are final after so many weight gradients of a split backward
    size_t after;
    int part;
  };

  // Around fp8's products all is in bf16, as in Transformer Engine.
  static DType act_of(const RunSpec& spec) {
    const std::string& amp = spec.policy.amp;
    return amp == "bf16" || amp == "fp8" ? DType::bf16 : amp == "fp16" ? DType::f16 : DType::f32;
  }
  static ParameterPolicy policy_of(const RunSpec& spec) {
    const PolicySpec& p = spec.policy;
    const auto bucket = static_cast<int64_t>(p.bucket_mb * 1e6) / size_of(DType::f32);
    return {.zero = p.zero,
            .act = act_of(spec),
            .grads = p.main_grads_dtype == "bf16" ? DType::bf16 : DType::f32,
            .bucket = std::max<int64_t>(1, bucket),
            .sgd = spec.train.optimizer == "sgd",
            .offload = p.offload_optimizer,
            .overlap = p.overlap};
  }
  // Gradients are written by the first micro-batch, added to by the others, and reduced under the last.
  template <class Emit>  // (name, accumulate, reduce) -> routine
  static std::vector<int> by_micro(int m, const std::string& name, const std::string& suffix,
                                   const Emit& emit) {
    if (m == 1) return {emit(name + suffix, false, true)};
    std::vector<int> out(m);
    out[0] = emit(name + ".first" + suffix, false, false);
    const int middle = m > 2 ? emit(name + ".middle" + suffix, true, false) : -1;
    for (int i = 1; i < m - 1; ++i) out[i] = middle;
    out[m - 1] = emit(name + ".last" + suffix, true, true);
    return out;
  }

  // ---- small routines ----
  // First values depend on seed and name alone, so every rank makes its own.
  int emit_init() {
    const int r = b_.begin("init", Pass::init);
    params_.copies("params");
    b_.end();
    return r;
  }

  int emit_begin() {
    const int r = b_.begin("begin", Pass::begin);
    b_.emit(OpKind::zero, "metrics/zero", {.m = 1, .n = b_.plan.metrics.count}, {}, {b_.plan.metrics});
    b_.end();
    return r;
  }

  int emit_eval_end() {
    const int r = b_.begin("eval_end", Pass::eval_end);
    reduce_metrics();
    b_.end();
    return r;
  }

  // Means over dp; stages without the loss add nothing and learn it.
  void reduce_metrics() {
    if (at_.metrics_group >= 0)
      b_.emit(OpKind::all_reduce, "metrics/all_reduce", {.group = at_.metrics_group}, {b_.plan.metrics},
              {b_.plan.metrics}, Lane::dp);
  }

  int emit_optimizer() {
    const int r = b_.begin("optimizer", Pass::optimizer);
    Plan& p = b_.plan;
    ends_->emit_tied_reduction(params_);
    params_.squared_norm(p.grad_norm2);
    if (at_.norm_group >= 0)
      b_.emit(OpKind::all_reduce, "optimizer/grad_norm/all_reduce", {.group = at_.norm_group}, {p.grad_norm2},
              {p.grad_norm2}, Lane::dp);
    if (act_ == DType::f16)
      b_.emit(OpKind::loss_scale, "optimizer/loss_scale", {}, {p.grad_norm2, p.scalars},
              {p.grad_norm2, p.scalars});
    params_.update(p.scalars, s_.train.grad_clip > 0 ? p.grad_norm2 : View{});
    reduce_metrics();
    b_.end();
    return r;
  }

  int emit_forward(const Stage& stage, const std::string& name) {
    const int r = b_.begin(name, Pass::forward, stage.chunk);
    params_.forward(stage.chunk);
    const int64_t rows = at_.rows;
    View residual, y;
    int64_t period = 0;
    const Block& door = blocks_[stage.first];
    if (stage.is_first || stage.is_last) {
      const InPart here(b_, stage.is_first ? kEmbed : head_of(n_));
      ends_->emit_fetch(stage);
    }
    if (stage.is_first) {
      params_.need(kEmbed);
      const InPart here(b_, kEmbed);
      const Ends::Stream in = ends_->emit_first(door);
      residual = in.residual, y = in.y, period = in.period;
    } else {
      residual = emit_.door(door);
      stages_.receive_forward(stage, residual);
    }
    for (int64_t i = stage.first; i < stage.end; ++i) {
      params_.need(part_of(i));
      const auto [from, to] = recomputed_with(s_.policy, stage, i);
      y = emit_.forward(blocks_[i], residual, period, y,
                        from == to  ? Keep::all
                        : i == from ? Keep::input
                                    : Keep::nothing);
      residual = blocks_[i].norm2.x;
      period = 0;
    }
    if (!stage.is_last) {
      stages_.send_forward(stage, residual, y);
      b_.end();
      return r;
    }
    params_.need(head_of(n_));
    const InPart here(b_, head_of(n_));
    final_.x = b_.saved("norm.x", emit_.stream(), rows * D_);
    emit_.norm_forward("norm", "/forward", final_, residual, 0, y, true);
    ends_->emit_last(final_.h);
    b_.end();
    return r;
  }

  int emit_backward(const Stage& stage, const std::string& name, bool accumulate, bool reduce) {
    const int r = b_.begin(name, Pass::backward, stage.chunk);
    params_.backward(stage.chunk, !accumulate, reduce);
    accumulate = accumulate && params_.ops_accumulate();
    finals_.clear();
    const auto done = [&](int part) {
      if (emit_.split())
        finals_.push_back({emit_.postponed(), part});
      else
        params_.final(part);
    };
    const int64_t rows = at_.rows;
    const View dx = stages_.stream_gradient(stage, rows * D_);
    emit_.backward_begins(dx, accumulate);
    View dy;
    const Block& last = blocks_[stage.end - 1];
    if (stage.is_last) {
      const int head = head_of(n_);
      params_.need(head);
      if (stage.is_first && ends_->last_reads_first()) params_.need(kEmbed);
      const InPart here(b_, head);
      const View dh = ends_->emit_backward_last(final_.h);
      dy = emit_.norm_backward("norm", final_, dh, true, true, last.fc2.bias);
      done(head);
    } else {
      stages_.receive_backward(stage, dx);
      const InPart here(b_, last.part);
      if (last.fc2.bias)
        b_.emit(OpKind::column_sum, last.path + "/mlp/fc2/backward_bias",
                {.m = rows, .n = D_, .accumulate = accumulate}, {dx}, {b_.grad(last.fc2.bias)});
      dy = dx;
      if (emit_.copies_gradient()) {
        dy = emit_.operand("stream.dy", act_, rows * D_);
        const bool same = act_ == emit_.stream();
        Attrs a{.m = 1, .n = rows * D_};
        if (same) a.extent[0] = a.extent[1] = a.extent[2] = 1;
        b_.emit(same ? OpKind::copy : OpKind::cast, last.path + "/mlp/fc2/backward_cast", a, {dx}, {dy});
      }
    }
    for (int64_t i = stage.end - 1; i >= stage.first; --i) {
      // The linear before norm1 is the previous block's fc2, or the first end's, or on another stage.
      const bool inner = i > stage.first, here = inner || (stage.is_first && ends_->first_is_linear());
      const View before = inner ? blocks_[i - 1].fc2.bias : here ? ends_->first_bias() : View{};
      const auto [from, to] = recomputed_with(s_.policy, stage, i);
      if (from < to && i == to - 1) {
        for (int64_t j = from; j < to; ++j) params_.need(part_of(j));
        emit_.recompute({&blocks_[from], static_cast<size_t>(to - from)});
      }
      params_.need(part_of(i));
      dy = emit_.backward(blocks_[i], dy, here, before);
      done(part_of(i));
    }
    View final_gradient = b_.grad(blocks_[stage.first].norm1.gamma);
    if (stage.is_first) {
      const InPart here(b_, kEmbed);
      ends_->emit_backward_first(dx, dy, accumulate);
      final_gradient = b_.grad(ends_->first_parameter());
    } else {
      stages_.send_backward(stage, dx);
    }
    params_.finish(final_gradient);
    b_.end();
    return r;
  }

  // Of the input part that was emitted last: those of all micro-batches postpone the same products.
  int emit_backward_weight(const Stage& stage, const std::string& name, bool accumulate, bool reduce) {
    const int r = b_.begin(name, Pass::backward, stage.chunk);
    params_.backward(stage.chunk, !accumulate, reduce);
    size_t next = 0;
    emit_.weight_gradients(accumulate, [&](size_t emitted) {
      for (; next < finals_.size() && finals_[next].after <= emitted; ++next)
        params_.final(finals_[next].part);
    });
    const bool first = stage.is_first && ends_->first_is_linear();
    params_.finish(b_.grad(first ? ends_->first_parameter() : blocks_[stage.first].qkv.weight));
    b_.end();
    return r;
  }

  const RunSpec& s_;
  const NetSpec& n_;
  Builder b_;
  Parameters params_;
  const DType act_;  // of activations: what matrix products read and write
  Sharding at_;
  BlockEmitter emit_;
  const int64_t D_;  // width
  Stages stages_;
  std::unique_ptr<Ends> ends_;
  Norm final_;
  std::vector<Block> blocks_;  // of the whole net; those of other stages stay empty
  std::vector<Final> finals_;  // of the input part that was emitted last
};

}  // namespace

Plan build_transformer(const RunSpec& spec, int rank, const Workspace& workspace) {
  return Transformer(spec, rank, workspace).build();
}

}  // namespace isobar
