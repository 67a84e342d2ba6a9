#include "model/nets/aurora/perceiver.h"

#include <cmath>

#include "model/nets/declare.h"
#include "model/nets/graph/graph_mlp.h"

namespace isobar::nets::aurora {

Perceiver::Perceiver(Emission& e, const Sharding& at, std::string path, std::string name, const Shape& shape)
    : e_(e),
      b_(e.b),
      layers_(e, at),
      path_(std::move(path)),
      name_(std::move(name)),
      s_(shape),
      rows_(shape.groups * shape.queries),
      selective_(e.spec.policy.recompute == Recompute::selective) {}

void Perceiver::declare(Declare& d) {
  const int64_t D = s_.width;
  const auto matrix = [&](const std::string& which, int64_t out, int64_t in) {
    return plan::Param{name_ + which + ".weight", {out, in}, plan::Init::normal, kSigma};
  };
  d.linear(q_, D, D, {matrix(".0.to_q", D, D)}, {});
  d.linear(kv_, D, 2 * D, {matrix(".0.to_kv", 2 * D, D)}, {});
  d.linear(out_, D, D, {matrix(".0.to_out", D, D)}, {});
  d.linear(fc1_, name_ + ".1.net.0", D, s_.hidden, -1, true);
  d.linear(fc2_, name_ + ".1.net.2", s_.hidden, D, -1, true);
  for (const auto& [norm, which] : {std::pair<ResultNorm*, const char*>{&norm1_, ".2"}, {&norm2_, ".3"}}) {
    d.tensor(norm->gamma, false, {{name_ + which + ".weight", {D}, plan::Init::one}});
    d.tensor(norm->beta, false, {{name_ + which + ".bias", {D}, plan::Init::zero}});
  }
}

plan::AttentionAttrs Perceiver::attention() const {
  const int64_t D = s_.width, d = D / s_.heads;
  return {.batch = s_.groups,
          .heads = s_.heads,
          .kv_heads = s_.heads,
          .tq = s_.queries,
          .tk = s_.keys,
          .d = d,
          .ld_q = D,
          .ld_kv = 2 * D,
          .ld_o = D,
          .scale = 1.0f / std::sqrt(static_cast<float>(d))};
}

plan::NormAttrs Perceiver::rows_of(int64_t cols) const {
  return {.rows = rows_, .cols = cols, .accumulate = e_.accumulates(), .eps = static_cast<float>(s_.eps)};
}

void Perceiver::forward(const plan::View& latents, const plan::View& context, const plan::View& y) {
  const int64_t D = s_.width, kv = s_.groups * s_.keys;
  context_ = context;
  latents_ = as_act(e_, path_ + "/latents", path_ + ".latents", latents, true);
  query_ = b_.saved_or_scratch(path_ + ".q0", e_.act, s_.queries * D, selective_);
  layers_.linear_forward(path_ + "/to_q/forward", q_, latents_, query_, s_.queries, plan::View{});
  repeat_queries("", !selective_);
  keys_ = b_.saved(path_ + ".kv", e_.act, kv * 2 * D);
  layers_.linear_forward(path_ + "/to_kv/forward", kv_, context, keys_, kv, plan::View{});
  attend("/forward", !selective_);
  const auto normed = [&](const std::string& which, ResultNorm& n, const plan::View& residual,
                          const plan::View& to) {
    n.mean = b_.saved(path_ + which + ".mean", DType::f32, rows_);
    n.rstd = b_.saved(path_ + which + ".rstd", DType::f32, rows_);
    b_.emit<plan::OpKind::norm_residual>(path_ + "/" + which.substr(1) + "/forward", rows_of(D),
                                         {n.x, residual, n.gamma, n.beta},
                                         {plan::View{}, to, n.mean, n.rstd});
  };
  norm1_.x = b_.saved(path_ + ".norm1.x", e_.act, rows_ * D);
  layers_.linear_forward(path_ + "/to_out/forward", out_, o_, norm1_.x, rows_, plan::View{});
  const plan::View residual = b_.scratch(path_ + ".residual", DType::f32, rows_ * D);
  repeated("/residual", latents, residual);
  const plan::View a = b_.saved_or_scratch(path_ + ".a", DType::f32, rows_ * D, e_.act == DType::f32);
  normed(".norm1", norm1_, residual, a);
  a_ = as_act(e_, path_ + "/mlp/cast", path_ + ".a.act", a, true);
  u_ = b_.saved(path_ + ".u", e_.act, rows_ * s_.hidden);
  layers_.linear_forward(path_ + "/mlp/fc1/forward", fc1_, a_, u_, rows_, fc1_.bias);
  activate("/forward", !selective_);
  norm2_.x = b_.saved(path_ + ".norm2.x", e_.act, rows_ * D);
  layers_.linear_forward(path_ + "/mlp/fc2/forward", fc2_, g_, norm2_.x, rows_, fc2_.bias);
  normed(".norm2", norm2_, a, y);
}

void Perceiver::repeated(const std::string& path, const plan::View& x, const plan::View& to) const {
  const int64_t one = s_.queries * s_.width;
  b_.emit<plan::OpKind::copy>(path_ + path,
                              {.run = one, .extent = {s_.groups, 1, 1}, .from = {0, 0, 0}, .to = {one, 0, 0}},
                              {x}, {to});
}

void Perceiver::repeat_queries(const std::string& pass, bool keep) {
  queries_ = b_.saved_or_scratch(path_ + ".q", e_.act, rows_ * s_.width, keep);
  repeated("/queries" + pass, query_, queries_);
}

void Perceiver::attend(const std::string& pass, bool keep) {
  const int64_t D = s_.width;
  o_ = b_.saved_or_scratch(path_ + ".o", e_.act, rows_ * D, keep);
  lse_ = b_.saved_or_scratch(path_ + ".lse", DType::f32, rows_ * s_.heads, keep);
  b_.emit_with_workspace<plan::OpKind::attention>(
      path_ + "/attention" + pass, attention(),
      {queries_, keys_.slice(0, keys_.count - D), keys_.slice(D, keys_.count - D)}, {o_, lse_});
}

void Perceiver::activate(const std::string& pass, bool keep) {
  g_ = b_.saved_or_scratch(path_ + ".g", e_.act, rows_ * s_.hidden, keep);
  b_.emit<plan::OpKind::activation>(path_ + "/mlp/gelu" + pass,
                                    {.rows = rows_, .cols = s_.hidden, .accumulate = e_.accumulates()}, {u_},
                                    {g_});
}

void Perceiver::norm_backward(const std::string& which, const ResultNorm& n, const plan::View& dy,
                              const plan::View& dx, const plan::View& dbias) const {
  const plan::View dh =
      as_act(e_, path_ + "/" + which + "/backward_cast", path_ + "." + which + ".dh", dy, false);
  b_.emit<plan::OpKind::norm_residual_backward>(
      path_ + "/" + which + "/backward", rows_of(s_.width), {n.x, n.mean, n.rstd, n.gamma, dh},
      {dx, b_.grad(n.gamma), b_.grad(n.beta), dbias ? b_.grad(dbias) : plan::View{}});
}

void Perceiver::backward(const plan::View& dy, const plan::View& dlatents, const plan::View& dcontext) {
  const int64_t D = s_.width, kv = s_.groups * s_.keys;
  const plan::View dz = e_.operand(path_ + ".dz", e_.act, rows_ * D);
  norm_backward("norm2", norm2_, dy, dz, fc2_.bias);
  // The product that reads the recomputed activation comes first, so that it is freed before the next
  // gradient is allocated.
  if (selective_) activate("/recompute", false);
  layers_.linear_backward_weight(path_ + "/mlp/fc2", fc2_, g_, dz, rows_);
  const plan::View du = e_.operand(path_ + ".du", e_.act, rows_ * s_.hidden);
  layers_.linear_backward_input(path_ + "/mlp/fc2", fc2_, dz, du, rows_);
  b_.emit<plan::OpKind::activation_backward>(
      path_ + "/mlp/gelu/backward", {.rows = rows_, .cols = s_.hidden, .accumulate = e_.accumulates()},
      {u_, du}, {du, b_.grad(fc1_.bias)});
  layers_.linear_backward_input(path_ + "/mlp/fc1", fc1_, du, dy, rows_, true);
  layers_.linear_backward_weight(path_ + "/mlp/fc1", fc1_, a_, du, rows_);

  // Sums over the groups: of the residual, and of the queries' gradient
  const auto summed = [&](const std::string& path, const plan::View& x, const plan::View& to) {
    b_.emit<plan::OpKind::period_sum>(path_ + path, {.rows = rows_, .cols = D, .period = s_.queries}, {x},
                                      {to});
  };
  summed("/residual/backward", dy, dlatents);
  const plan::View da = e_.operand(path_ + ".da", e_.act, rows_ * D);
  norm_backward("norm1", norm1_, dy, da, plan::View{});
  if (selective_) repeat_queries("/recompute", false), attend("/recompute", false);
  const plan::View d_o = b_.scratch(path_ + ".do", e_.act, rows_ * D);
  layers_.linear_backward_input(path_ + "/to_out", out_, da, d_o, rows_);
  layers_.linear_backward_weight(path_ + "/to_out", out_, o_, da, rows_);
  const plan::View dq = b_.scratch(path_ + ".dq", e_.act, rows_ * D);
  const plan::View dkv = e_.operand(path_ + ".dkv", e_.act, kv * 2 * D);
  b_.emit_with_workspace<plan::OpKind::attention_backward>(
      path_ + "/attention/backward", attention(),
      {queries_, keys_.slice(0, keys_.count - D), keys_.slice(D, keys_.count - D), o_, lse_, d_o},
      {dq, dkv.slice(0, dkv.count - D), dkv.slice(D, dkv.count - D)});
  plan::View dq32 = dq;
  if (e_.act != DType::f32) {
    dq32 = b_.scratch(path_ + ".dq32", DType::f32, dq.count);
    b_.emit<plan::OpKind::cast>(path_ + "/queries/backward_cast", {.count = dq.count}, {dq}, {dq32});
  }
  plan::View dq0 = e_.operand(path_ + ".dq0", DType::f32, s_.queries * D);
  summed("/queries/backward", dq32, dq0);
  if (e_.act != DType::f32) {
    const plan::View cast = e_.operand(path_ + ".dq0.act", e_.act, dq0.count);
    b_.emit<plan::OpKind::cast>(path_ + "/to_q/backward_cast", {.count = dq0.count}, {dq0}, {cast});
    dq0 = cast;
  }
  layers_.linear_backward_input(path_ + "/to_q", q_, dq0, dlatents, s_.queries, true);
  layers_.linear_backward_weight(path_ + "/to_q", q_, latents_, dq0, s_.queries);
  layers_.linear_backward_input(path_ + "/to_kv", kv_, dkv, dcontext, kv);
  layers_.linear_backward_weight(path_ + "/to_kv", kv_, context_, dkv, kv);
}

}  // namespace isobar::nets::aurora
