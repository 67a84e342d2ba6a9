#include "model/nets/transformer/latent.h"

#include "model/base/error.h"
#include "model/nets/declare.h"

namespace isobar::nets {

LatentAttention::LatentAttention(Emission& e, const Sharding& at, std::string path, std::string name,
                                 const BlockShape& shape)
    : path_(std::move(path)),
      name_(std::move(name)),
      e_(e),
      b_(e.b),
      layers_(e, at),
      shape_(shape),
      n_(shape_.latent),
      R_(at.full_rows),
      tokens_(at.tokens),
      heads_(shape.heads / at.tp),
      wide_(n_.q_lora_rank + n_.kv_lora_rank + n_.qk_rope_head_dim) {}

void LatentAttention::declare(Declare& d) {
  const std::string attn = name_ + ".attn.";
  const int64_t D = shape_.width, q = shape_.heads * n_.qk_head_dim(),
                kv = shape_.heads * (n_.qk_nope_head_dim + n_.v_head_dim);
  std::vector<plan::Param> down;
  if (n_.q_lora_rank > 0)
    down.push_back({attn + "q_down.weight", {n_.q_lora_rank, D}, plan::Init::normal, kSigma});
  down.push_back(
      {attn + "kv_down.weight", {n_.kv_lora_rank + n_.qk_rope_head_dim, D}, plan::Init::normal, kSigma});
  d.linear(down_, D, wide_, std::move(down), {}, TensorUse::multiplied);
  if (down_.adapter)
    throw ConfigError(e_.spec.file, "train.lora_targets",
                      "name the latents of attention, which have no adapters",
                      "name blocks.*.attn.q, kv or proj");
  const auto norm = [&](Norm& n, const char* which, int64_t width) {
    d.norm(n, attn + which, width, shape_.eps, false, TensorUse::multiplied);
  };
  if (n_.q_lora_rank > 0) norm(q_norm_, "q_norm", n_.q_lora_rank);
  norm(kv_norm_, "kv_norm", n_.kv_lora_rank);
  d.linear(q_, attn + "q", n_.q_lora_rank > 0 ? n_.q_lora_rank : D, q, 0, false);
  d.linear(kv_, attn + "kv", n_.kv_lora_rank, kv, 0, false);
}

plan::View LatentAttention::columns(const plan::View& of, int64_t first, int64_t width) const {
  return of.slice(first, (R_ - 1) * wide_ + width);
}

plan::LatentAttrs LatentAttention::attrs() const {
  return {.rows = R_,
          .cols = 3 * heads_ * n_.qk_head_dim(),
          .heads = heads_,
          .nope = n_.qk_nope_head_dim,
          .rope = n_.qk_rope_head_dim,
          .v = n_.v_head_dim,
          .ld = wide_,
          .tokens = tokens_};
}

// ---- forward ----

plan::View LatentAttention::normed(const std::string& pass, Norm& n, const char* which, int64_t first,
                                   bool keep) {
  const int64_t width = n.gamma.count;
  const std::string path = path_ + "/attn/" + which;
  const plan::View h = b_.saved_or_scratch(path + ".h", e_.act, R_ * width, keep);
  n.x = columns(c_, first, width);
  layers_.head_norm_forward(path, pass, n, rows_of(width), h, keep);
  return h;
}

plan::View LatentAttention::forward(const std::string& pass, const plan::View& h, bool keep,
                                    bool keep_result) {
  const std::string attn = path_ + "/attn";
  const int64_t q_rank = n_.q_lora_rank, kv_rank = n_.kv_lora_rank;
  c_ = b_.saved_or_scratch(path_ + ".latents", e_.act, R_ * wide_, keep);
  layers_.linear_forward(attn + "/down" + pass, down_, h, c_, R_, plan::View{});
  const plan::View q = b_.scratch(path_ + ".q", e_.act, R_ * q_.out),
                   kv = b_.scratch(path_ + ".kv", e_.act, R_ * kv_.out);
  if (q_rank > 0) q_latent_ = normed(pass, q_norm_, "q_norm", 0, keep);
  layers_.linear_forward(attn + "/q" + pass, q_, q_rank > 0 ? q_latent_ : h, q, R_, plan::View{});
  kv_latent_ = normed(pass, kv_norm_, "kv_norm", q_rank, keep);
  layers_.linear_forward(attn + "/kv" + pass, kv_, kv_latent_, kv, R_, plan::View{});
  const plan::View qkv = b_.saved_or_scratch(path_ + ".qkv", e_.act, R_ * attrs().cols, keep && keep_result);
  b_.emit<plan::OpKind::latent_heads>(
      attn + "/heads" + pass, attrs(),
      {q, kv, columns(c_, q_rank + kv_rank, n_.qk_rope_head_dim), shape_.rotary}, {qkv});
  return qkv;
}

namespace {

// Between columns of values alone and those of attention's result, whose heads are wider
plan::CopyAttrs of_values(int64_t rows, int64_t heads, int64_t v, int64_t wide, bool widens) {
  plan::CopyAttrs a{.run = v, .extent = {rows, heads, 1}};
  (widens ? a.from : a.to) = {heads * v, v, 0};
  (widens ? a.to : a.from) = {heads * wide, wide, 0};
  return a;
}

}  // namespace

plan::View LatentAttention::values(const std::string& pass, const plan::View& o, const plan::View& to) const {
  const int64_t v = n_.v_head_dim, d = n_.qk_head_dim();
  if (v == d) return o;
  b_.emit<plan::OpKind::copy>(path_ + "/attn/values" + pass, of_values(R_, heads_, v, d, false), {o}, {to});
  return to;
}

// ---- backward ----

plan::View LatentAttention::values_backward(const plan::View& d_values) const {
  const int64_t v = n_.v_head_dim, d = n_.qk_head_dim();
  if (v == d) return d_values;
  const plan::View d_o = b_.scratch(path_ + ".do.wide", e_.act, R_ * heads_ * d);
  b_.emit<plan::OpKind::zero>(path_ + "/attn/values/backward_zero", {.count = d_o.count}, {}, {d_o});
  b_.emit<plan::OpKind::copy>(path_ + "/attn/values/backward", of_values(R_, heads_, v, d, true), {d_values},
                              {d_o});
  return d_o;
}

void LatentAttention::backward(const plan::View& dqkv, const plan::View& dh) {
  const std::string attn = path_ + "/attn";
  const int64_t q_rank = n_.q_lora_rank, kv_rank = n_.kv_lora_rank;
  dc_ = e_.operand(path_ + ".dlatents", e_.act, R_ * wide_);
  dq_ = e_.operand(path_ + ".dq.heads", e_.act, R_ * q_.out);
  const plan::View dkv = e_.operand(path_ + ".dkv.heads", e_.act, R_ * kv_.out);
  b_.emit<plan::OpKind::latent_heads_backward>(
      attn + "/heads/backward", attrs(), {dqkv, shape_.rotary},
      {dq_, dkv, columns(dc_, q_rank + kv_rank, n_.qk_rope_head_dim)});
  const auto through = [&](const char* which, const Linear& l, const Norm& n, const plan::View& x,
                           const plan::View& dy, int64_t first) {
    const plan::View dx = b_.scratch(path_ + ".d" + which, e_.act, R_ * l.in);
    layers_.linear_backward_input(attn + "/" + which, l, dy, dx, R_);
    layers_.linear_backward_weight(attn + "/" + which, l, x, dy, R_);
    layers_.head_norm_backward(attn + "/" + which + "_norm", n, rows_of(l.in), dx, columns(dc_, first, l.in));
  };
  through("kv", kv_, kv_norm_, kv_latent_, dkv, q_rank);
  if (q_rank > 0) through("q", q_, q_norm_, q_latent_, dq_, 0);
  layers_.linear_backward_input(attn + "/down", down_, dc_, dh, R_);
  if (q_rank == 0) layers_.linear_backward_input(attn + "/q", q_, dq_, dh, R_, true);
}

void LatentAttention::backward_weight(const plan::View& h) {
  if (n_.q_lora_rank == 0) layers_.linear_backward_weight(path_ + "/attn/q", q_, h, dq_, R_);
  layers_.linear_backward_weight(path_ + "/attn/down", down_, h, dc_, R_);
}

}  // namespace isobar::nets
