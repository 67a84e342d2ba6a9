#include "model/backend/cpu/cpu_backend.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "model/backend/cpu/kernels.h"
#include "model/base/latitude.h"
#include "model/base/loss_sums.h"
#include "model/plan/parameter_groups.h"

namespace isobar {
namespace {

bool biased(const Op& op) {
  const size_t bias = op.kind == OpKind::attention ? 3 : 6;
  return op.kind != OpKind::attention_merge && op.reads.size() > bias && op.reads[bias];
}

cpu::Attention attention_of(const Op& op, DType act) {
  const Attrs& a = op.a;
  return {a.batch, a.heads, a.kv_heads, a.tq,   a.tk,   a.d,    a.scale,   a.causal,
          act,     a.ld_q,  a.ld_kv,    a.ld_o, a.tf32, a.each, biased(op)};
}

// With loss scaling kStep counts the steps before this one until the step's end.
int64_t steps_begun(DType act) {
  return act == DType::f16 ? 1 : 0;
}

}  // namespace

Workspace cpu_workspace(int threads) {
  return [threads](const Op& op) -> int64_t {
    if (op.kind != OpKind::attention && op.kind != OpKind::attention_backward) return 0;
    // Buffers are not declared yet when a plan asks, so this covers the wider type.
    const bool backward = op.kind == OpKind::attention_backward;
    return std::max(cpu::attention_workspace(attention_of(op, DType::f32), backward, threads),
                    cpu::attention_workspace(attention_of(op, DType::bf16), backward, threads));
  };
}

cpu::Gemm CpuBackend::gemm_of(const Op& op, const Plan& plan) {
  const Attrs& a = op.a;
  const auto type = [&](const View& v) { return plan.buffers[v.buffer].dtype; };
  return {a.m,
          a.n,
          a.k,
          a.trans_a,
          a.trans_b,
          type(op.reads[0]),
          type(op.reads[1]),
          type(op.writes[0]),
          static_cast<bool>(op.reads[2]),
          a.accumulate,
          a.tf32,
          a.scale == 0 ? 1.0f : a.scale};
}

cpu::Loss CpuBackend::loss_of(const Attrs& image, bool masked, const float* mask) {
  using Kind = cpu::Loss::Kind;
  const Kind kind = train_.loss == "mae"          ? Kind::mae
                    : train_.loss == "mse"        ? Kind::mse
                    : train_.loss == "huber"      ? Kind::huber
                    : train_.loss == "projection" ? Kind::projection  // not a user's: validate() refuses it
                                                  : Kind::relative_l2;
  std::vector<double>& rows = rows_[image.height];
  if (rows.empty()) rows = row_weights(image.height, train_.latitudes);
  return {kind,
          static_cast<float>(train_.huber_delta),
          loss_weights_.empty() ? nullptr : loss_weights_.data(),
          intense_.empty() ? nullptr : above_.data(),
          intense_.empty() ? nullptr : intense_.data(),
          rows.data(),
          train_.latitude_weights,
          masked,
          mask};
}

void CpuBackend::launch(const Program& program, const RowRun& run) {
  std::vector<cpu::Layer> layers;
  const int32_t slot = program.instrs[static_cast<size_t>(run.first)].slot;
  const auto floats = [&](const View& v) { return reinterpret_cast<float*>(at(v, slot)); };
  const auto op = [&](int32_t i) -> const Op& {
    return plan_.ops[static_cast<size_t>(program.instrs[static_cast<size_t>(i)].op)];
  };
  for (int32_t i = run.first; i < run.end; ++i) {
    const Op& o = op(i);
    if (o.kind == OpKind::activation)
      layers.back().activation = o.a.activation;
    else
      layers.push_back({o.a.n, o.a.k, floats(o.reads[1]), floats(o.reads[2]), {}});
  }
  cpu::layers(op(run.first).a.m, layers, floats(op(run.first).reads[0]), floats(op(run.end - 1).writes[0]));
}

namespace {

// Attention's workspace depends on the number of threads, which may have changed since planning.
void check_workspace(const Op& op) {
  const int threads = omp_get_max_threads();
  const int64_t planned = op.writes.back().count * static_cast<int64_t>(sizeof(float));
  const int64_t needed = cpu_workspace(threads)(op);
  if (planned < needed)
    throw std::logic_error(op.path + ": its workspace is planned for fewer threads than the " +
                           std::to_string(threads) + " of OpenMP (" + std::to_string(planned) + " of " +
                           std::to_string(needed) +
                           " bytes); call omp_set_num_threads with what was planned");
}

}  // namespace

void CpuBackend::launch(const Op& op, int32_t micro, int32_t slot) {
  const Attrs& a = op.a;
  const auto in = [&](size_t i) -> void* { return op.reads[i] ? at(op.reads[i], slot) : nullptr; };
  const auto out = [&](size_t i) -> void* { return op.writes[i] ? at(op.writes[i], slot) : nullptr; };
  const auto fin = [&](size_t i) { return static_cast<float*>(in(i)); };
  const auto ints = [&](size_t i) { return static_cast<const int32_t*>(in(i)); };
  const auto fout = [&](size_t i) { return static_cast<float*>(out(i)); };
  const auto type = [&](const View& v) { return plan_.buffers[v.buffer].dtype; };
  const auto patch = [&](DType act) {
    const int64_t all = a.patch > 0 ? (a.height / a.patch) * (a.width / a.patch) : 0;
    const int64_t tokens = a.tokens > 0 ? a.tokens : all;
    const int64_t rows = a.m > 0 ? a.m : a.batch * tokens - a.row0;
    return cpu::Patch{a.batch, a.channels, a.height, a.width, a.patch, act, a.token0, tokens, a.row0, rows};
  };
  const auto scalar = [&](size_t i, Scalar s) {
    return i < op.reads.size() && op.reads[i] ? fin(i)[s] : 0.0f;
  };
  const auto masked_by = [&](size_t read) {
    const bool masked = op.reads.size() > read && op.reads[read];
    return loss_of(a, masked, masked ? fin(read) : nullptr);
  };
  const auto padding = [&](size_t scalars) { return static_cast<int64_t>(scalar(scalars, kPadding)); };
  const auto classes = [&] {
    const bool labelled = op.reads.size() > 1;
    return cpu::Classes{a.m, a.n, type(op.reads[0]), labelled ? type(op.reads[1]) : DType::f32, a.column0};
  };
  switch (op.kind) {
    case OpKind::fetch:
      return fetch(op, micro, places(op, slot));
    case OpKind::patch_gather:
      return cpu::patch_gather(patch(type(op.writes[0])), fin(0), out(0));
    case OpKind::roll:
      return cpu::roll(patch(type(op.writes[0])), {a.n, a.history, type(op.reads[0])}, in(0), in(1), fin(2),
                       out(0));
    case OpKind::unroll:
      return cpu::unroll(patch(type(op.reads[0])), {a.n, a.history, type(op.writes[0])}, in(0), out(0),
                         out(1));
    case OpKind::gemm:
      return cpu::gemm(gemm_of(op, plan_), in(0), in(1), fin(2), out(0));
    case OpKind::attention: {
      check_workspace(op);
      cpu::Attention attention = attention_of(op, type(op.reads[0]));
      if (attention.biased) attention.bias = fin(3);
      return cpu::attention_forward(attention, in(0), in(1), in(2), out(0), fout(1), out(2));
    }
    case OpKind::attention_backward: {
      check_workspace(op);
      cpu::Attention attention = attention_of(op, type(op.reads[0]));
      if (attention.biased) attention.bias = fin(6), attention.dbias = fout(3);
      return cpu::attention_backward(attention, in(0), in(1), in(2), in(3), fin(4), in(5), out(0), out(1),
                                     out(2), a.ld_q, a.ld_kv, out(4));
    }
    case OpKind::attention_merge:
      return cpu::attention_merge(attention_of(op, type(op.reads[0])), a.first, in(0), fin(1), fout(0),
                                  fout(1));
    case OpKind::residual_norm:
      return cpu::residual_norm_forward({a.m, a.n, a.eps, a.period, type(op.writes[1]), a.row0}, fin(0),
                                        in(1), fin(2), fin(3), fout(0), out(1), fout(2), fout(3));
    case OpKind::residual_norm_backward:
      return cpu::residual_norm_backward({a.m, a.n, a.eps, 0, type(op.reads[4])}, fin(0), fin(1), fin(2),
                                         fin(3), in(4), fout(0), a.first, out(1), fout(2), fout(3), fout(4),
                                         a.accumulate);
    case OpKind::residual_add:
      return cpu::residual_add(a.m * a.n, type(op.reads[1]), fin(0), in(1), fout(0));
    case OpKind::norm_residual:
      return cpu::norm_residual({a.m, a.n, a.eps, 0, type(op.reads[0])}, in(0), fin(1), fin(2), fin(3),
                                out(0), fout(1), fout(2), fout(3));
    case OpKind::norm_residual_backward:
      return cpu::norm_residual_backward({a.m, a.n, a.eps, 0, type(op.reads[0])}, in(0), fin(1), fin(2),
                                         fin(3), in(4), out(0), fout(1), fout(2), fout(3), a.accumulate);
    case OpKind::gather: {
      const bool two = op.reads.size() > 3 && op.reads[3];
      const DType act = type(op.reads[1]);
      const auto rows = [&](size_t table) { return op.reads[table].count / (a.batch * a.n); };
      return cpu::gather({a.batch, a.m / a.batch, a.n, rows(1), two ? rows(3) : 0, act,
                          op.reads[0] ? type(op.reads[0]) : act},
                         in(0), in(1), ints(2), two ? in(3) : nullptr, two ? ints(4) : nullptr, out(0));
    }
    case OpKind::segment_sum:
      return cpu::segment_sum(
          {a.batch, a.m / a.batch, a.n, op.writes[0].count / (a.batch * a.n), type(op.reads[0])}, in(0),
          ints(1), ints(2), out(0));
    case OpKind::activation:
      return cpu::activation_forward(a.activation, a.m * a.n, type(op.reads[0]), in(0), out(0));
    case OpKind::activation_backward:
      return cpu::activation_backward(a.activation, a.m, a.n, type(op.reads[0]), in(0), in(1), out(0),
                                      fout(1), a.accumulate);
    case OpKind::column_sum:
      return cpu::column_sum(a.m, a.n, type(op.reads[0]), in(0), fout(0), a.accumulate);
    case OpKind::period_sum:
      return cpu::period_sum(a.m, a.n, a.period, a.row0, fin(0), fout(0), a.accumulate);
    case OpKind::loss_sums:
      return cpu::loss_sums(patch(type(op.reads[0])), in(0), fin(1), fout(0), masked_by(2));
    case OpKind::loss:  // metrics: loss, then one RMSE a channel
      return cpu::loss(patch(type(op.reads[0])), fin(0), a.scale, fout(0), fout(0) + 1,
                       loss_of(a, op.reads[0].count > a.batch * loss_sums_size(a.channels, false), nullptr),
                       padding(1));
    case OpKind::loss_backward: {
      const float scale = op.reads[3] ? a.scale * fin(3)[kLossScale] : a.scale;
      return cpu::loss_backward(patch(type(op.reads[0])), in(0), fin(1), fin(2), scale, out(0), masked_by(4));
    }
    case OpKind::cross_entropy_max:
      return cpu::cross_entropy_max(classes(), in(0), fout(0));
    case OpKind::cross_entropy_sums:
      return cpu::cross_entropy_sums(classes(), in(0), in(1), fin(2), fout(0));
    case OpKind::cross_entropy: {  // fp16's loss is scaled
      const float slope = type(op.reads[0]) == DType::f16 ? a.scale * scalar(4, kLossScale) : a.scale;
      return cpu::cross_entropy(classes(), in(0), in(1), fin(2), fin(3), a.scale, slope, padding(4), out(0),
                                fout(1), op.writes[1].count > 1 ? fout(1) + 1 : nullptr);
    }
    case OpKind::dropout:
    case OpKind::dropout_backward: {
      const bool forward = op.kind == OpKind::dropout;
      if (forward ? op.writes[1] : op.reads[1]) break;  // no kernel here writes or reads a stored mask
      const size_t scalars = forward ? 1 : 2;
      if (scalar(scalars, kTraining) == 0) return;
      const DropoutDraw draw{static_cast<uint64_t>(train_.seed), static_cast<uint64_t>(a.stream), a.rate,
                             static_cast<int64_t>(scalar(scalars, kStep)) + steps_begun(type(op.reads[0]))};
      return cpu::dropout(draw, (micro * a.period + a.row0) * a.n, a.m * a.n, type(op.reads[0]), out(0),
                          a.each);
    }
    case OpKind::zero:
      std::memset(out(0), 0, op.writes[0].count * size_of(type(op.writes[0])));
      return;
    case OpKind::cast:
      if (a.accumulate) return cpu::cast_add(a.n, type(op.reads[0]), type(op.writes[0]), in(0), out(0));
      return cpu::cast(a.n, type(op.reads[0]), type(op.writes[0]), in(0), out(0));
    case OpKind::copy:
      if (op.lane != Lane::compute) {  // other lanes must not use the compute lane's threads
        std::memcpy(out(0), in(0), op.reads[0].count * size_of(type(op.reads[0])));
        return;
      }
      return cpu::copy({{a.extent[0], a.extent[1], a.extent[2]},
                        {a.from[0], a.from[1], a.from[2]},
                        {a.to[0], a.to[1], a.to[2]},
                        a.n,
                        type(op.reads[0])},
                       in(0), out(0));
    case OpKind::squared_sum:
      *fout(0) = static_cast<float>(cpu::squared_sum(a.n, in(0), type(op.reads[0])) +
                                    (a.accumulate ? static_cast<double>(*fout(0)) : 0.0));
      return;
    case OpKind::loss_scale:
      return cpu::loss_scale({static_cast<float>(train_.min_loss_scale), train_.loss_scale_window}, fout(0),
                             fout(1));
    case OpKind::adam:
    case OpKind::sgd: {
      const float* scalars = fin(1);
      if (scalars[kUnscale] == 0) return;  // gradients overflowed
      // torch.nn.utils.clip_grad_norm_: min(1, largest / (norm + 1e-6))
      const float clip =
          op.reads[2] ? std::min(1.0f, static_cast<float>(train_.grad_clip) / (std::sqrt(*fin(2)) + 1e-6f))
                      : 1.0f;
      const auto update = [&](int64_t from, int64_t n, float rate, float decay) {
        const auto of = [&](size_t i) { return fout(i) + from; };
        const auto halves = [&](size_t i) {
          return op.writes[i] ? static_cast<uint16_t*>(out(i)) + from : nullptr;
        };
        const void* const gradient = static_cast<std::byte*>(in(0)) + from * size_of(type(op.reads[0]));
        const size_t last = op.writes.size() - 1;
        const DType type16 = op.writes[last] ? type(op.writes[last]) : DType::bf16;
        const float lr = rate * scalars[kLearningRate],
                    weight_decay = decay * static_cast<float>(train_.weight_decay);
        if (op.kind == OpKind::sgd)
          return cpu::sgd({lr, static_cast<float>(train_.momentum), weight_decay, clip * scalars[kUnscale]},
                          n, of(0), gradient, of(1), halves(2), type16, type(op.reads[0]));
        const cpu::Adam adam{lr,
                             static_cast<float>(train_.beta1),
                             static_cast<float>(train_.beta2),
                             static_cast<float>(train_.adam_eps),
                             weight_decay,
                             train_.optimizer == "adamw",
                             static_cast<int64_t>(scalars[kStep]),
                             clip * scalars[kUnscale]};
        return cpu::adam(adam, n, of(0), gradient, of(1), of(2), halves(3), type16, type(op.reads[0]));
      };
      if (op.reads.size() < 4) return update(0, a.n, 1, 1);
      const auto* const groups = reinterpret_cast<const ParameterGroup*>(ints(3));
      const auto count =
          static_cast<int64_t>(op.reads[3].count * size_of(DType::i32) / sizeof(ParameterGroup));
      for (int64_t g = 0, from = 0; g < count; ++g) {
        const int64_t end = std::min<int64_t>(a.n, groups[g].end * kGroupElements);
        if (end > from) update(from, end - from, groups[g].lr, groups[g].decay);
        from = end;
      }
      return;
    }
    case OpKind::average:
      if (fin(1)[kUnscale] == 0) return;
      return cpu::average(a.n, a.rate, fin(0), fout(0));
    case OpKind::swap:
      return cpu::swap(a.n, fout(0), fout(1));
    case OpKind::all_reduce:
    case OpKind::broadcast:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::exchange:
    case OpKind::send:
    case OpKind::recv:
    default:  // includes kernel_less()
      break;
  }
  throw std::logic_error(op.path + ": the CPU backend does not run this kind");
}

}  // namespace isobar
