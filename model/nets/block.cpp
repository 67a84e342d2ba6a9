#include "model/nets/block.h"

#include <cmath>

namespace isobar {

BlockEmitter::BlockEmitter(Builder& b, const RunSpec& spec, const Sharding& at, DType act)
    : b_(b),
      s_(spec),
      at_(at),
      act_(act),
      D_(spec.net.embed_dim),
      width_(spec.net.embed_dim / at.tp),
      R_(at.full_rows),
      recompute_all_(spec.policy.recompute == "full"),
      recompute_core_(spec.policy.recompute == "selective"),
      split_(spec.policy.schedule == "zb-h1") {}

void BlockEmitter::backward_begins(const View& dx, bool accumulate) {
  dx_ = dx;
  accumulate_ = accumulate;
  postponed_.clear();
}

// ---- pieces ----

View BlockEmitter::hold(const std::string& name, DType t, int64_t count, bool keep) {
  return keep ? b_.saved(name, t, count) : b_.scratch(name, t, count);
}

Attrs BlockEmitter::rows(int64_t m, int64_t cols) const {
  return {.m = m, .n = cols, .accumulate = accumulate_, .eps = static_cast<float>(s_.net.norm_eps)};
}

void BlockEmitter::linear_forward(const std::string& path, const Linear& l, const View& x, const View& y,
                                  int64_t rows, const View& bias) {
  b_.emit(OpKind::gemm, path, {.m = rows, .n = l.out, .k = l.in, .trans_b = true},
          {x, b_.weight(l.weight), bias}, {y});
}

void BlockEmitter::linear_backward_input(const std::string& path, const Linear& l, const View& dy,
                                         const View& dx, int64_t rows) {
  b_.emit(OpKind::gemm, path + "/backward_input", {.m = rows, .n = l.in, .k = l.out},
          {dy, b_.weight(l.weight), View{}}, {dx});
}

void BlockEmitter::linear_backward_weight(const std::string& path, const Linear& l, const View& x,
                                          const View& dy, int64_t rows) {
  const Postponed p{path, &l, x, dy, rows};
  if (split_)
    postponed_.push_back(p);
  else
    weight_gradient(p);
}

void BlockEmitter::weight_gradient(const Postponed& p) {
  const Linear& l = *p.linear;
  b_.emit(OpKind::gemm, p.path + "/backward_weight",
          {.m = l.out, .n = l.in, .k = p.rows, .trans_a = true, .accumulate = accumulate_},
          {p.dy, p.x, View{}}, {b_.grad(l.weight)});
}

void BlockEmitter::weight_gradients(bool accumulate, const std::function<void(size_t)>& after) {
  accumulate_ = accumulate;
  const auto whole = [&](Postponed p) {
    const std::string path = p.path + "/backward_weight";
    if (p.x.count < p.rows * p.linear->in) p.x = gathered(path, p.x);
    if (p.dy.count < p.rows * p.linear->out) p.dy = gathered(path, p.dy);
    return p;
  };
  Postponed now;
  if (!postponed_.empty()) now = whole(postponed_[0]);
  for (size_t i = 0; i < postponed_.size(); ++i) {
    // The next product's operands are gathered under this one.
    Postponed next;
    if (i + 1 < postponed_.size()) next = whole(postponed_[i + 1]);
    weight_gradient(now);
    after(i + 1);
    now = std::move(next);
  }
}

View BlockEmitter::operand(const std::string& name, DType t, int64_t count) {
  if (!split_) return b_.scratch(name, t, count);
  const auto [it, fresh] = operands_.try_emplace(name);
  if (fresh) it->second = b_.saved(name, t, count);
  return it->second;
}

// x = residual + y, h = LN(x)
void BlockEmitter::norm_forward(const std::string& path, const std::string& pass, Norm& n,
                                const View& residual, int64_t period, const View& y, bool keep) {
  const int64_t rows = at_.rows;
  n.h = hold(path + ".h", act_, rows * D_, keep);
  n.mean = hold(path + ".mean", DType::f32, rows, keep);
  n.rstd = hold(path + ".rstd", DType::f32, rows, keep);
  Attrs a{.m = rows, .n = D_, .eps = static_cast<float>(s_.net.norm_eps), .period = period, .row0 = at_.row0};
  b_.emit(OpKind::residual_norm, path + pass, a, {residual, y, n.gamma, n.beta},
          {y ? n.x : View{}, n.h, n.mean, n.rstd});
}

View BlockEmitter::norm_backward(const std::string& path, const Norm& n, const View& dh, bool first,
                                 const View& bias) {
  // dx goes on changing, so a weight gradient that comes later needs its own copy in f32, too.
  const bool copied = bias && (act_ != DType::f32 || split_);
  const View dy = copied ? operand(path + ".dy", act_, at_.rows * D_) : View{};
  Attrs a = rows(at_.rows, D_);
  a.first = first;
  b_.emit(OpKind::residual_norm_backward, path + "/backward", a, {n.x, n.mean, n.rstd, n.gamma, dh},
          {dx_, dy, b_.grad(n.gamma), b_.grad(n.beta), bias ? b_.grad(bias) : View{}});
  return dy ? dy : bias ? dx_ : View{};
}

// ---- tensor parallelism: what goes over the network, a half of the block each ----

// Partial [full_rows, D] of a row-parallel linear's result, or of a column-parallel one's input gradient ->
// their sum, this rank's rows of it
View BlockEmitter::result(const std::string& path, const View& partial) {
  if (at_.tp == 1) return partial;
  if (!at_.sequence) {
    b_.emit(OpKind::all_reduce, path + "/all_reduce", {.group = at_.tp_group}, {partial}, {partial},
            Lane::tp);
    return partial;
  }
  const View own = b_.scratch(path + ".part", act_, at_.rows * D_);
  Attrs a{.group = at_.tp_group};
  a.send = at_.row_elements(D_);
  b_.emit(OpKind::reduce_scatter, path + "/reduce_scatter", a, {partial}, {own}, Lane::tp);
  return own;
}

// All rows of a [rows, D] operand
View BlockEmitter::gathered(const std::string& path, const View& part) {
  if (!at_.sequence) return part;
  const View all = b_.scratch(path + ".all", b_.plan.buffers[part.buffer].dtype, R_ * D_);
  Attrs a{.group = at_.tp_group};
  a.receive = at_.row_elements(D_);
  b_.emit(OpKind::all_gather, path + "/all_gather", a, {part}, {all}, Lane::tp);
  return all;
}

// ---- attention ----

Attrs BlockEmitter::attention() const {
  const NetSpec& n = s_.net;
  const int64_t heads = n.num_heads / at_.tp;
  return {.batch = at_.batch,
          .heads = heads,
          .kv_heads = heads,
          .tq = at_.tokens,
          .tk = at_.cp > 1 ? n.tokens() : at_.tokens,
          .d = n.head_dim(),
          .ld_q = 3 * width_,
          .ld_kv = at_.cp > 1 ? 2 * width_ : 3 * width_,
          .ld_o = width_,
          .scale = 1.0f / std::sqrt(static_cast<float>(n.head_dim()))};
}

// Row 0 … of q, k or v inside the fused [rows, 3 width] matrix: a strided operand, stated as the span that it
// covers.
View BlockEmitter::third(const View& qkv, int which) const {
  return qkv.slice(which * width_, qkv.count - 2 * width_);
}

// Between the order that ranks deliver, [cp][B][their tokens], and the order of samples, [B][N]; rows of 2
// width.
void BlockEmitter::regroup(const std::string& path, const View& by_rank, const View& by_sample,
                           bool to_sample) {
  const int64_t cols = 2 * width_, whole = s_.net.tokens() * cols;
  int64_t token = 0;
  for (size_t i = 0; i < at_.token_parts.size(); ++i) {
    const int64_t part = at_.token_parts[i] * cols;
    const View mine = by_rank.slice(at_.batch * token * cols, at_.batch * part);
    const View there = by_sample.slice(token * cols, (at_.batch - 1) * whole + part);
    Attrs a{.n = part};
    a.extent[0] = at_.batch, a.extent[1] = a.extent[2] = 1;
    a.from[0] = to_sample ? part : whole;
    a.to[0] = to_sample ? whole : part;
    b_.emit(OpKind::copy, path + "/from" + std::to_string(i), a, {to_sample ? mine : there},
            {to_sample ? there : mine});
    token += at_.token_parts[i];
  }
}

void BlockEmitter::core_forward(Block& k, bool keep, const std::string& pass) {
  const std::string path = k.path + "/attn/core";
  k.o = hold(k.path + ".o", act_, R_ * width_, keep);
  k.lse = hold(k.path + ".lse", DType::f32, at_.batch * s_.net.num_heads / at_.tp * at_.tokens, keep);
  View keys = third(k.qkv_out, 1), values = third(k.qkv_out, 2);
  if (at_.cp > 1) {
    const int64_t cols = 2 * width_;
    const View own = b_.scratch(k.path + ".kv.own", act_, R_ * cols);
    Attrs pack{.n = cols};
    pack.extent[0] = R_, pack.extent[1] = pack.extent[2] = 1;
    pack.from[0] = 3 * width_, pack.to[0] = cols;
    b_.emit(OpKind::copy, path + pass + "_pack", pack, {k.qkv_out.slice(width_, k.qkv_out.count - width_)},
            {own});
    const int64_t all = at_.batch * s_.net.tokens() * cols;
    k.kv = hold(k.path + ".kv", act_, all, keep);
    const View arrived = at_.batch > 1 ? b_.scratch(k.path + ".kv.arrived", act_, all) : k.kv;
    Attrs a{.group = at_.cp_group};
    for (int64_t t : at_.token_parts) a.receive.push_back(at_.batch * t * cols);
    b_.emit(OpKind::all_gather, path + pass + "_all_gather", a, {own}, {arrived}, Lane::cp);
    if (at_.batch > 1) regroup(path + pass + "_regroup", arrived, k.kv, true);
    keys = k.kv.slice(0, all - width_), values = k.kv.slice(width_, all - width_);
  }
  b_.emit_with_workspace(OpKind::attention, path + pass, attention(), {third(k.qkv_out, 0), keys, values},
                         {k.o, k.lse});
}

void BlockEmitter::core_backward(Block& k, const View& d_o, const View& dqkv) {
  const std::string path = k.path + "/attn/core";
  if (at_.cp == 1) {
    b_.emit_with_workspace(OpKind::attention_backward, path + "/backward", attention(),
                           {third(k.qkv_out, 0), third(k.qkv_out, 1), third(k.qkv_out, 2), k.o, k.lse, d_o},
                           {third(dqkv, 0), third(dqkv, 1), third(dqkv, 2)});
    return;
  }
  const int64_t cols = 2 * width_, all = k.kv.count;
  const View dkv = b_.scratch(k.path + ".dkv", act_, all);
  b_.emit_with_workspace(
      OpKind::attention_backward, path + "/backward", attention(),
      {third(k.qkv_out, 0), k.kv.slice(0, all - width_), k.kv.slice(width_, all - width_), k.o, k.lse, d_o},
      {third(dqkv, 0), dkv.slice(0, all - width_), dkv.slice(width_, all - width_)});
  View leaving = dkv;
  if (at_.batch > 1) {
    leaving = b_.scratch(k.path + ".dkv.leaving", act_, all);
    regroup(path + "/backward_regroup", leaving, dkv, false);
  }
  const View own = b_.scratch(k.path + ".dkv.own", act_, R_ * cols);
  Attrs a{.group = at_.cp_group};
  for (int64_t t : at_.token_parts) a.send.push_back(at_.batch * t * cols);
  b_.emit(OpKind::reduce_scatter, path + "/backward_reduce_scatter", a, {leaving}, {own}, Lane::cp);
  Attrs unpack{.n = cols};
  unpack.extent[0] = R_, unpack.extent[1] = unpack.extent[2] = 1;
  unpack.from[0] = cols, unpack.to[0] = 3 * width_;
  b_.emit(OpKind::copy, path + "/backward_unpack", unpack, {own}, {dqkv.slice(width_, dqkv.count - width_)});
}

// ---- the block ----

View BlockEmitter::forward(Block& k, const View& residual, int64_t period, const View& y) {
  const bool keep = !recompute_all_;
  // The stream at the block's door is what a full recomputation starts from. Without y it has just arrived.
  k.norm1.x = y ? b_.saved(k.path + "/norm1.x", DType::f32, at_.rows * D_) : residual;
  norm_forward(k.path + "/norm1", "/forward", k.norm1, residual, period, y, keep);
  return inside(k, keep, "/forward");
}

// From the first norm on. A recomputation stops before the last product, which backward does not need.
View BlockEmitter::inside(Block& k, bool keep, const std::string& pass) {
  const bool again = pass != "/forward";
  // The bias of a row-parallel linear must enter its sum once: rank 0 of the group adds it.
  const auto once = [&](const View& bias) { return at_.at.tp == 0 ? bias : View{}; };
  const std::string attn = k.path + "/attn", mlp = k.path + "/mlp";
  k.qkv_out = hold(k.path + ".qkv", act_, R_ * 3 * width_, keep);
  linear_forward(attn + "/qkv" + pass, k.qkv, gathered(attn + "/qkv" + pass, k.norm1.h), k.qkv_out, R_,
                 k.qkv.bias);
  core_forward(k, keep && !recompute_core_, pass);
  View y = b_.scratch(k.path + ".attn.y", act_, R_ * D_);
  linear_forward(attn + "/proj" + pass, k.proj, k.o, y, R_, once(k.proj.bias));
  y = result(attn + "/proj" + pass, y);

  k.norm2.x = hold(k.path + "/norm2.x", DType::f32, at_.rows * D_, keep);
  norm_forward(k.path + "/norm2", pass, k.norm2, k.norm1.x, 0, y, keep);
  k.u = hold(k.path + ".u", act_, R_ * k.fc1.out, keep);
  k.g = hold(k.path + ".g", act_, R_ * k.fc1.out, keep);
  linear_forward(mlp + "/fc1" + pass, k.fc1, gathered(mlp + "/fc1" + pass, k.norm2.h), k.u, R_, k.fc1.bias);
  b_.emit(OpKind::gelu, mlp + "/gelu" + pass, rows(R_, k.fc1.out), {k.u}, {k.g});
  if (again) return {};
  y = b_.scratch(k.path + ".mlp.y", act_, R_ * D_);
  linear_forward(mlp + "/fc2" + pass, k.fc2, k.g, y, R_, once(k.fc2.bias));
  return result(mlp + "/fc2" + pass, y);
}

View BlockEmitter::backward(Block& k, const View& dy_part, const View& before) {
  const std::string attn = k.path + "/attn", mlp = k.path + "/mlp";
  if (recompute_all_) {
    norm_forward(k.path + "/norm1", "/recompute", k.norm1, k.norm1.x, 0, View{}, false);
    inside(k, false, "/recompute");
  }
  View dy = gathered(mlp + "/fc2/backward", dy_part);
  const View du = operand(k.path + ".du", act_, R_ * k.fc1.out);
  linear_backward_input(mlp + "/fc2", k.fc2, dy, du, R_);
  linear_backward_weight(mlp + "/fc2", k.fc2, k.g, split_ ? dy_part : dy, R_);
  b_.emit(OpKind::gelu_backward, mlp + "/gelu/backward", rows(R_, k.fc1.out), {k.u, du},
          {du, b_.grad(k.fc1.bias)});
  View dh = b_.scratch(k.path + ".norm2.dh", act_, R_ * D_);
  linear_backward_input(mlp + "/fc1", k.fc1, du, dh, R_);
  // The weight gradient runs under the reduction of the input gradient.
  const View h2 = split_ ? k.norm2.h : gathered(mlp + "/fc1/backward_weight", k.norm2.h);
  const View dh2 = result(mlp + "/fc1/backward_input", dh);
  linear_backward_weight(mlp + "/fc1", k.fc1, h2, du, R_);
  const View part = norm_backward(k.path + "/norm2", k.norm2, dh2, false, k.proj.bias);
  dy = gathered(attn + "/proj/backward", part);

  if (recompute_core_) core_forward(k, false, "/recompute");
  const View d_o = b_.scratch(k.path + ".do", act_, R_ * width_);
  linear_backward_input(attn + "/proj", k.proj, dy, d_o, R_);
  linear_backward_weight(attn + "/proj", k.proj, k.o, split_ ? part : dy, R_);
  const View dqkv = operand(k.path + ".dqkv", act_, R_ * 3 * width_);
  core_backward(k, d_o, dqkv);
  b_.emit(OpKind::column_sum, attn + "/qkv/backward_bias", rows(R_, 3 * width_), {dqkv},
          {b_.grad(k.qkv.bias)});
  dh = b_.scratch(k.path + ".norm1.dh", act_, R_ * D_);
  linear_backward_input(attn + "/qkv", k.qkv, dqkv, dh, R_);
  const View h1 = split_ ? k.norm1.h : gathered(attn + "/qkv/backward_weight", k.norm1.h);
  const View dh1 = result(attn + "/qkv/backward_input", dh);
  linear_backward_weight(attn + "/qkv", k.qkv, h1, dqkv, R_);
  return norm_backward(k.path + "/norm1", k.norm1, dh1, false, before);
}

}  // namespace isobar
