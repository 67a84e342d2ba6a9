#include "model/nets/block.h"

namespace isobar {

BlockEmitter::BlockEmitter(Builder& b, const RunSpec& spec, const Sharding& at, DType act)
    : b_(b),
      s_(spec),
      at_(at),
      act_(act),
      stream_(spec.net.language() ? act : DType::f32),
      D_(spec.net.embed_dim),
      width_(spec.net.embed_dim / at.tp),
      qkv_(width_ + 2 * spec.net.kv_heads() / at.tp * spec.net.head_dim()),
      R_(at.full_rows),
      recompute_core_(spec.policy.recompute == "selective"),
      split_(spec.policy.schedule == "zb-h1"),
      tf32_(spec.policy.amp == "tf32"),
      core_(b, spec, at, act) {}

void BlockEmitter::backward_begins(const View& dx, bool accumulate) {
  dx_ = dx;
  accumulate_ = accumulate;
  postponed_.clear();
}

View BlockEmitter::door(const Block& k) {
  const InPart here(b_, k.part);
  return b_.saved(k.path + "/norm1.x", stream_, at_.rows * D_);
}

// ---- pieces ----

Attrs BlockEmitter::rows(int64_t m, int64_t cols) const {
  return {.m = m, .n = cols, .accumulate = accumulate_, .eps = static_cast<float>(s_.net.norm_eps)};
}

Attrs BlockEmitter::gelu_rows(const Block& k) const {
  Attrs a = rows(R_, k.fc1.out);
  a.tanh = s_.net.gelu == "tanh";
  return a;
}

void BlockEmitter::linear_forward(const std::string& path, const Linear& l, const View& x, const View& y,
                                  int64_t rows, const View& bias) {
  b_.emit(OpKind::gemm, path,
          {.m = rows, .n = l.out, .k = l.in, .trans_b = true, .tf32 = tf32_, .fp8 = l.fp8},
          {x, b_.weight(l.weight), bias}, {y});
}

void BlockEmitter::linear_backward_input(const std::string& path, const Linear& l, const View& dy,
                                         const View& dx, int64_t rows) {
  b_.emit(OpKind::gemm, path + "/backward_input",
          {.m = rows, .n = l.in, .k = l.out, .tf32 = tf32_, .fp8 = l.fp8}, {dy, b_.weight(l.weight), View{}},
          {dx});
}

void BlockEmitter::linear_backward_weight(const std::string& path, const Linear& l, const View& x,
                                          const View& dy, int64_t rows) {
  const Postponed p{path, &l, x, dy, rows, b_.part()};
  if (split_)
    postponed_.push_back(p);
  else
    weight_gradient(p);
}

void BlockEmitter::weight_gradient(const Postponed& p) {
  const InPart here(b_, p.part);
  const Linear& l = *p.linear;
  b_.emit(OpKind::gemm, p.path + "/backward_weight",
          {.m = l.out,
           .n = l.in,
           .k = p.rows,
           .trans_a = true,
           .accumulate = accumulate_,
           .tf32 = tf32_,
           .fp8 = l.fp8},
          {p.dy, p.x, View{}}, {b_.grad(l.weight)})
      .weight_gradient = true;
}

void BlockEmitter::weight_gradients(bool accumulate, const std::function<void(size_t)>& after) {
  accumulate_ = accumulate;
  const auto whole = [&](Postponed p) {
    const InPart here(b_, p.part);
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
  n.h = b_.hold(path + ".h", act_, rows * D_, keep);
  if (s_.net.rms_norm()) {
    n.rstd = b_.hold(path + ".rstd", DType::f32, rows, keep);
    b_.emit(OpKind::rms_norm, path + pass, {.m = rows, .n = D_, .eps = static_cast<float>(s_.net.norm_eps)},
            {residual, y, n.gamma}, {y ? n.x : View{}, n.h, n.rstd});
    return;
  }
  n.mean = b_.hold(path + ".mean", DType::f32, rows, keep);
  n.rstd = b_.hold(path + ".rstd", DType::f32, rows, keep);
  Attrs a{.m = rows, .n = D_, .eps = static_cast<float>(s_.net.norm_eps), .period = period, .row0 = at_.row0};
  b_.emit(OpKind::residual_norm, path + pass, a, {residual, y, n.gamma, n.beta},
          {y ? n.x : View{}, n.h, n.mean, n.rstd});
}

View BlockEmitter::norm_backward(const std::string& path, const Norm& n, const View& dh, bool first,
                                 bool here, const View& bias) {
  // dx goes on changing, so a weight gradient that comes later needs its own copy in f32, too.
  const View dy = here && copies_gradient() ? operand(path + ".dy", act_, at_.rows * D_) : View{};
  Attrs a = rows(at_.rows, D_);
  a.first = first;
  if (s_.net.rms_norm())
    b_.emit(OpKind::rms_norm_backward, path + "/backward", a, {n.x, n.rstd, n.gamma, dh},
            {dx_, dy, b_.grad(n.gamma)});
  else
    b_.emit(OpKind::residual_norm_backward, path + "/backward", a, {n.x, n.mean, n.rstd, n.gamma, dh},
            {dx_, dy, b_.grad(n.gamma), b_.grad(n.beta), bias ? b_.grad(bias) : View{}});
  return dy ? dy : here ? dx_ : View{};
}

View BlockEmitter::dropout(const std::string& path, const View& y, bool keep) {
  if (s_.net.dropout == 0) return {};
  // Without one, the state of the random numbers brings it back.
  const View mask = keep ? b_.saved(path + ".mask", DType::f32, (at_.rows * D_ + 3) / 4) : View{};
  b_.emit(OpKind::dropout, path, {.m = at_.rows, .n = D_}, {y}, {y, mask});
  return mask;
}

void BlockEmitter::dropout_backward(const std::string& path, const View& dy, const View& mask) {
  if (s_.net.dropout > 0) b_.emit(OpKind::dropout_backward, path, {.m = at_.rows, .n = D_}, {dy, mask}, {dy});
}

// ---- tensor parallelism: what goes over the network, a half of the block each ----

// Of a row-parallel linear's result, or of a column-parallel one's input gradient
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

View BlockEmitter::gathered(const std::string& path, const View& part) {
  if (!at_.sequence) return part;
  const View all = b_.scratch(path + ".all", b_.plan.buffers[part.buffer].dtype, R_ * D_);
  Attrs a{.group = at_.tp_group};
  a.receive = at_.row_elements(D_);
  b_.emit(OpKind::all_gather, path + "/all_gather", a, {part}, {all}, Lane::tp);
  return all;
}

// ---- the block ----

View BlockEmitter::forward(Block& k, const View& residual, int64_t period, const View& y, Keep keep) {
  const InPart here(b_, k.part);
  // Without y the stream at the block's door has just arrived.
  k.norm1.x = y ? b_.hold(k.path + "/norm1.x", stream_, at_.rows * D_, keep != Keep::nothing) : residual;
  norm_forward(k.path + "/norm1", "/forward", k.norm1, residual, period, y, keep == Keep::all);
  return inside(k, keep == Keep::all, "/forward", true);
}

void BlockEmitter::recompute(std::span<Block> blocks) {
  View residual = blocks.front().norm1.x, y;
  for (Block& k : blocks) {
    const InPart here(b_, k.part);
    if (y) k.norm1.x = b_.scratch(k.path + "/norm1.x", stream_, at_.rows * D_);
    norm_forward(k.path + "/norm1", "/recompute", k.norm1, residual, 0, y, false);
    y = inside(k, false, "/recompute", &k != &blocks.back());
    residual = k.norm2.x;
  }
}

// From the first norm on. Backward does not need the last product: a recomputation makes it for the next
// block only.
View BlockEmitter::inside(Block& k, bool keep, const std::string& pass, bool with_result) {
  // The bias of a row-parallel linear must enter its sum once: rank 0 of the group adds it.
  const auto once = [&](const View& bias) { return at_.at.tp == 0 ? bias : View{}; };
  const std::string attn = k.path + "/attn", mlp = k.path + "/mlp";
  k.core.qkv =
      b_.hold(k.path + ".qkv", act_, R_ * qkv_, keep && (recompute_core_ || core_.backward_reads_qkv()));
  linear_forward(attn + "/qkv" + pass, k.qkv, gathered(attn + "/qkv" + pass, k.norm1.h), k.core.qkv, R_,
                 k.qkv.bias);
  if (s_.net.rms_norm()) rotary(OpKind::rotary, attn + "/rotary" + pass, k.core.qkv);
  core_.forward(k.path, k.core, keep && !recompute_core_, pass);
  View y = b_.scratch(k.path + ".attn.y", act_, R_ * D_);
  linear_forward(attn + "/proj" + pass, k.proj, k.core.o, y, R_, once(k.proj.bias));
  y = result(attn + "/proj" + pass, y);
  k.attn_mask = dropout(attn + "/dropout" + pass, y, keep);

  k.norm2.x = b_.hold(k.path + "/norm2.x", stream_, at_.rows * D_, keep);
  norm_forward(k.path + "/norm2", pass, k.norm2, k.norm1.x, 0, y, keep);
  k.u = b_.hold(k.path + ".u", act_, R_ * k.fc1.out, keep);
  k.g = b_.hold(k.path + ".g", act_, R_ * k.fc2.in, keep);
  linear_forward(mlp + "/fc1" + pass, k.fc1, gathered(mlp + "/fc1" + pass, k.norm2.h), k.u, R_, k.fc1.bias);
  if (s_.net.rms_norm())
    b_.emit(OpKind::swiglu, mlp + "/swiglu" + pass, rows(R_, k.fc2.in), {k.u}, {k.g});
  else
    b_.emit(OpKind::gelu, mlp + "/gelu" + pass, gelu_rows(k), {k.u}, {k.g});
  if (!with_result) return {};
  y = b_.scratch(k.path + ".mlp.y", act_, R_ * D_);
  linear_forward(mlp + "/fc2" + pass, k.fc2, k.g, y, R_, once(k.fc2.bias));
  y = result(mlp + "/fc2" + pass, y);
  k.mlp_mask = dropout(mlp + "/dropout" + pass, y, keep);
  return y;
}

// Queries and keys of the fused matrix
void BlockEmitter::rotary(OpKind kind, const std::string& path, const View& qkv) {
  const int64_t turned = (width_ + qkv_) / 2;
  const View span = qkv.slice(0, qkv.count - (qkv_ - turned));
  b_.emit(kind, path, {.m = R_, .n = turned}, {span}, {span});
}

View BlockEmitter::backward(Block& k, const View& dy_part, bool here, const View& before) {
  const InPart part_of_net(b_, k.part);
  const std::string attn = k.path + "/attn", mlp = k.path + "/mlp";
  dropout_backward(mlp + "/dropout/backward", dy_part, k.mlp_mask);
  View dy = gathered(mlp + "/fc2/backward", dy_part);
  const bool gated = s_.net.rms_norm();
  const View du = operand(k.path + ".du", act_, R_ * k.fc1.out);
  const View dg = gated ? b_.scratch(k.path + ".dg", act_, R_ * k.fc2.in) : du;
  linear_backward_input(mlp + "/fc2", k.fc2, dy, dg, R_);
  linear_backward_weight(mlp + "/fc2", k.fc2, k.g, split_ ? dy_part : dy, R_);
  if (gated)
    b_.emit(OpKind::swiglu_backward, mlp + "/swiglu/backward", rows(R_, k.fc2.in), {k.u, dg}, {du});
  else
    b_.emit(OpKind::gelu_backward, mlp + "/gelu/backward", gelu_rows(k), {k.u, du},
            {du, b_.grad(k.fc1.bias)});
  View dh = b_.scratch(k.path + ".norm2.dh", act_, R_ * D_);
  linear_backward_input(mlp + "/fc1", k.fc1, du, dh, R_);
  // The weight gradient runs under the reduction of the input gradient.
  const View h2 = split_ ? k.norm2.h : gathered(mlp + "/fc1/backward_weight", k.norm2.h);
  const View dh2 = result(mlp + "/fc1/backward_input", dh);
  linear_backward_weight(mlp + "/fc1", k.fc1, h2, du, R_);
  const View part = norm_backward(k.path + "/norm2", k.norm2, dh2, false, true, k.proj.bias);
  dropout_backward(attn + "/dropout/backward", part, k.attn_mask);
  dy = gathered(attn + "/proj/backward", part);

  if (recompute_core_) core_.forward(k.path, k.core, false, "/recompute");
  const View d_o = b_.scratch(k.path + ".do", act_, R_ * width_);
  linear_backward_input(attn + "/proj", k.proj, dy, d_o, R_);
  linear_backward_weight(attn + "/proj", k.proj, k.core.o, split_ ? part : dy, R_);
  const View dqkv = operand(k.path + ".dqkv", act_, R_ * qkv_);
  core_.backward(k.path, k.core, d_o, dqkv);
  if (s_.net.rms_norm()) rotary(OpKind::rotary_backward, attn + "/rotary/backward", dqkv);
  if (k.qkv.bias)
    b_.emit(OpKind::column_sum, attn + "/qkv/backward_bias", rows(R_, qkv_), {dqkv}, {b_.grad(k.qkv.bias)});
  dh = b_.scratch(k.path + ".norm1.dh", act_, R_ * D_);
  linear_backward_input(attn + "/qkv", k.qkv, dqkv, dh, R_);
  const View h1 = split_ ? k.norm1.h : gathered(attn + "/qkv/backward_weight", k.norm1.h);
  const View dh1 = result(attn + "/qkv/backward_input", dh);
  linear_backward_weight(attn + "/qkv", k.qkv, h1, dqkv, R_);
  return norm_backward(k.path + "/norm1", k.norm1, dh1, false, here, before);
}

}  // namespace isobar
