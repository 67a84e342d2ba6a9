#include "model/nets/transformer/block.h"

#include "model/nets/declare.h"

namespace isobar::nets {

Block::Block(int index, std::string path, std::string name, Emission& e, const Sharding& at,
             const BlockShape& shape, Windows* windows, bool relative_bias)
    : NetPart(index, std::move(path)),
      name_(std::move(name)),
      e_(e),
      b_(e.b),
      at_(at),
      layers_(e, at),
      shape_(shape),
      width_(shape.attended() / at.tp),
      qkv_width_(width_ + 2 * shape.kv_heads / at.tp * shape.head_dim),
      R_(at.full_rows),
      recompute_core_(e.spec.policy.recompute == Recompute::selective),
      attention_core_(e, shape, at) {
  if (shape.of_experts.experts > 0)
    experts_.emplace(e, at, this->path() + "/mlp", name_ + ".mlp", shape.of_experts, shape.width,
                     index - shape.of_experts.first);
  if (shape.latent.any()) latent_.emplace(e, at, this->path(), name_, shape);
  if (!windows) return;
  windowed_.emplace(e, at, this->path(), name_, *windows,
                    WindowAttention::Shape{shape.width, shape.heads, relative_bias});
  norm1_.keeps_h = false;
}

// ---- parameters ----

void Block::declare(Declare& d) {
  const int64_t D = shape_.width;
  d.norm(norm1_, name_ + ".norm1", D, shape_.eps, !shape_.rms_norm);
  if (windowed_)
    windowed_->declare(d);
  else
    declare_attention(d);
  d.norm(norm2_, name_ + ".norm2", D, shape_.eps, !shape_.rms_norm);
  if (experts_) experts_->declare(d);
  if (has_mlp()) declare_mlp(d);
}

void Block::declare_attention(Declare& d) {
  const int64_t D = shape_.width, kv = shape_.kv_heads * shape_.head_dim;
  if (latent_) {
    latent_->declare(d);
  } else {
    std::vector<plan::Param> weights, bias;  // q, k and v are adjacent: one [3D, D] operand
    for (const auto& [which, out] : {std::pair{"q", shape_.attended()}, {"k", kv}, {"v", kv}}) {
      const std::string name = name_ + ".attn." + which;
      weights.push_back({name + ".weight", {out, D}, plan::Init::normal, kSigma, 0});
      bias.push_back({name + ".bias", {out}, plan::Init::zero, 0, 0});
    }
    d.linear(qkv_, D, shape_.attended() + 2 * kv, std::move(weights),
             shape_.qkv_biases ? std::move(bias) : std::vector<plan::Param>{});
    for (const auto& [norm, which] : {std::pair{&q_norm_, ".attn.q_norm"}, {&k_norm_, ".attn.k_norm"}})
      if (shape_.qk_norm)
        d.norm(*norm, name_ + which, shape_.head_dim, shape_.eps, false, TensorUse::multiplied);
  }
  d.linear(proj_, name_ + ".attn.proj", shape_.result_width(), D, 1, shape_.biases);
}

// SwiGLU's gate and up are adjacent: one [2 hidden, D] operand, each cut by tensor parallelism.
void Block::declare_mlp(Declare& d) {
  const int64_t D = shape_.width;
  const std::string mlp = name_ + (experts_ ? ".mlp.shared" : ".mlp");
  if (shape_.swiglu)
    d.linear(fc1_, D, 2 * shape_.hidden,
             {{mlp + ".gate.weight", {shape_.hidden, D}, plan::Init::normal, kSigma, 0},
              {mlp + ".up.weight", {shape_.hidden, D}, plan::Init::normal, kSigma, 0}},
             {});
  else
    d.linear(fc1_, mlp + ".fc1", D, shape_.hidden, 0, shape_.biases);
  d.linear(fc2_, mlp + ".fc2", shape_.hidden, D, 1, shape_.biases);
}

// ---- forward ----

plan::View Block::receive_buffer(size_t) {
  const plan::InPart here(b_, index());
  return b_.saved(path() + "/norm1.x", shape_.stream, at_.rows * shape_.width);
}

std::vector<Flow> Block::forward(const std::vector<Flow>& in, const Forward& how) {
  const Flow& x = in[0];
  if (!how.recompute) in_ = x;
  const std::string pass = how.pass();
  const bool keep = how.keep == Keep::all;
  // Without y, x is already the block's received stream.
  norm1_.x = x.y ? b_.saved_or_scratch(path() + "/norm1.x", shape_.stream, at_.rows * shape_.width,
                                       how.keep != Keep::nothing)
                 : x.x;
  layers_.norm_forward(path() + "/norm1", pass, norm1_, x, keep);
  const plan::View y = attention(pass, keep);
  norm2_.x = b_.saved_or_scratch(path() + "/norm2.x", shape_.stream, at_.rows * shape_.width, keep);
  layers_.norm_forward(path() + "/norm2", pass, norm2_, {.x = norm1_.x, .y = y}, keep);
  return {{.x = norm2_.x,
           .y = mlp(pass, keep, how.result),
           .linear = path() + "/mlp/fc2",
           .bias = e_.dropout > 0 ? plan::View{} : fc2_.bias}};
}

plan::View Block::attention(const std::string& pass, bool keep) {
  const std::string attn = path() + "/attn";
  if (windowed_) {
    const plan::View y = b_.scratch(path() + ".attn.back", e_.act, R_ * shape_.width);
    windowed_->forward(pass, norm1_.h, y, keep);
    return y;
  }
  core_.qkv = attention_inputs(pass, keep);
  attention_core_.forward(path(), core_, keep && !recompute_core_, pass);
  const plan::View o =
      latent_ ? latent_->values(pass, core_.o, b_.scratch(path() + ".values", e_.act, R_ * proj_.in))
              : core_.o;
  plan::View y = b_.scratch(path() + ".attn.y", e_.act, R_ * shape_.width);
  layers_.linear_forward(attn + "/proj" + pass, proj_, o, y, R_, layers_.once(proj_.bias));
  y = layers_.result(attn + "/proj" + pass, y);
  attn_mask_ = layers_.dropout(attn + "/dropout" + pass, y, keep, attention_stream());
  return y;
}

// Queries, keys and values as attention reads them
plan::View Block::attention_inputs(const std::string& pass, bool keep) {
  const std::string attn = path() + "/attn";
  const bool core_reads = recompute_core_ || attention_core_.backward_reads_qkv();
  if (latent_)
    return latent_->forward(pass, layers_.gathered(attn + "/down" + pass, norm1_.h), keep, core_reads);
  core_.qkv =
      b_.saved_or_scratch(path() + ".qkv", e_.act, R_ * qkv_width_, keep && (core_reads || shape_.qk_norm));
  layers_.linear_forward(attn + "/qkv" + pass, qkv_, layers_.gathered(attn + "/qkv" + pass, norm1_.h),
                         core_.qkv, R_, qkv_.bias);
  if (shape_.qk_norm) head_norms(pass, keep);
  if (shape_.rotary) rotary(plan::OpKind::rotary, attn + "/rotary" + pass, core_.qkv);
  return core_.qkv;
}

// Backward does not need the last product, so a recomputation computes it only for the next block.
plan::View Block::mlp(const std::string& pass, bool keep, bool result) {
  const std::string mlp = path() + "/mlp";
  const plan::View h = layers_.gathered(mlp + "/fc1" + pass, norm2_.h);
  plan::View y = result ? b_.scratch(path() + ".mlp.y", e_.act, R_ * shape_.width) : plan::View{};
  if (experts_) experts_->dispatch(pass, h, keep);
  if (has_mlp()) widen(pass, h, keep);
  if (experts_) experts_->forward(pass, y, keep, result);
  if (!result) return {};
  if (has_mlp())  // added to what experts have given
    layers_.linear_forward(mlp + "/fc2" + pass, fc2_, g_, y, R_, layers_.once(fc2_.bias),
                           experts_.has_value());
  y = layers_.result(mlp + "/fc2" + pass, y);
  mlp_mask_ = layers_.dropout(mlp + "/dropout" + pass, y, keep, mlp_stream());
  return y;
}

// The MLP's hidden units, which run beside the experts' dispatch
void Block::widen(const std::string& pass, const plan::View& h, bool keep) {
  const std::string mlp = path() + "/mlp";
  u_ = b_.saved_or_scratch(path() + ".u", e_.act, R_ * fc1_.out, keep);
  g_ = b_.saved_or_scratch(path() + ".g", e_.act, R_ * fc2_.in, keep);
  layers_.linear_forward(mlp + "/fc1" + pass, fc1_, h, u_, R_, fc1_.bias);
  if (shape_.swiglu)
    b_.emit<plan::OpKind::swiglu>(mlp + "/swiglu" + pass, {.rows = R_, .cols = fc2_.in}, {u_}, {g_});
  else
    b_.emit<plan::OpKind::activation>(mlp + "/gelu" + pass, activation_rows(), {u_}, {g_});
}

// Queries, or keys, of the fused matrix
plan::View Block::heads_of(const plan::View& qkv, bool keys) const {
  const int64_t queries = width_, other = qkv_width_ - width_, all = other / 2;
  return keys ? qkv.slice(queries, qkv.count - queries - all) : qkv.slice(0, qkv.count - other);
}

// Norms of queries and keys; backward reads what they were, values are copied.
void Block::head_norms(const std::string& pass, bool keep) {
  const plan::View raw = core_.qkv;
  core_.qkv = b_.saved_or_scratch(path() + ".qkv.normed", e_.act, raw.count,
                                  keep && (recompute_core_ || attention_core_.backward_reads_qkv()));
  const int64_t kv = (qkv_width_ - width_) / 2, first = width_ + kv;
  for (const bool keys : {false, true}) {
    Norm& norm = keys ? k_norm_ : q_norm_;
    norm.x = heads_of(raw, keys);
    layers_.head_norm_forward(path() + (keys ? "/attn/k_norm" : "/attn/q_norm"), pass, norm,
                              rows_of((keys ? kv : width_) / shape_.head_dim), heads_of(core_.qkv, keys),
                              keep);
  }
  b_.emit<plan::OpKind::copy>(
      path() + "/attn/values" + pass,
      {.run = kv, .extent = {R_, 1, 1}, .from = {qkv_width_, 0, 0}, .to = {qkv_width_, 0, 0}},
      {raw.slice(first, raw.count - first)}, {core_.qkv.slice(first, raw.count - first)});
}

void Block::head_norms_backward(const plan::View& dqkv) {
  const int64_t kv = (qkv_width_ - width_) / 2;
  for (const bool keys : {false, true}) {
    const plan::View heads = heads_of(dqkv, keys);
    layers_.head_norm_backward(path() + (keys ? "/attn/k_norm" : "/attn/q_norm"), keys ? k_norm_ : q_norm_,
                               rows_of((keys ? kv : width_) / shape_.head_dim), heads, heads);
  }
}

// Rotates queries and keys of the fused matrix
void Block::rotary(plan::OpKind kind, const std::string& path, const plan::View& qkv) {
  const int64_t turned = (width_ + qkv_width_) / 2;
  const plan::View span = qkv.slice(0, qkv.count - (qkv_width_ - turned));
  b_.emit(kind, path,
          plan::RotaryAttrs{
              .rows = R_, .cols = turned, .d = shape_.head_dim, .ld = qkv_width_, .tokens = at_.tokens},
          {span, shape_.rotary}, {span});
}

// The bias of a linear whose result is dropped out; else the norm that adds the result sums its gradient.
void Block::dropout_backward(const std::string& path, const plan::View& dy, const plan::View& mask,
                             const Linear& of, int64_t stream) {
  if (e_.dropout == 0) return;
  layers_.dropout_backward(path + "/dropout/backward", dy, mask, stream);
  if (of.bias)
    b_.emit<plan::OpKind::column_sum>(
        path + "/dropout/backward_bias",
        {.rows = at_.rows, .cols = shape_.width, .accumulate = e_.accumulates()}, {dy}, {b_.grad(of.bias)});
}

plan::ActivationAttrs Block::activation_rows() const {
  return {.rows = R_, .cols = fc1_.out, .accumulate = e_.accumulates(), .function = shape_.activation};
}

// ---- backward ----

void Block::backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) {
  const plan::View dx = in[0].dx, dh2 = mlp_backward(out[0].dy);
  const plan::View added_bias = windowed_ ? windowed_->result_bias() : proj_.bias;
  const plan::View part = layers_.norm_backward(
      path() + "/norm2", norm2_, dh2, dx, false,
      {.x = norm1_.x, .y = norm2_.x, .bias = e_.dropout > 0 ? plan::View{} : added_bias});
  const plan::View dh1 = windowed_ ? windowed_->backward(part, {}) : attention_backward(part);
  if (windowed_) windowed_->backward_weight();
  in[0].dy = layers_.norm_backward(path() + "/norm1", norm1_, dh1, dx, false, in_);
}

// Returns the gradient of norm2's result, of this rank's rows
plan::View Block::mlp_backward(const plan::View& part) {
  const std::string mlp = path() + "/mlp";
  dropout_backward(mlp, part, mlp_mask_, fc2_, mlp_stream());
  const plan::View dy = layers_.gathered(mlp + "/fc2/backward", part);
  if (experts_) experts_->dispatch_gradient(dy);
  const plan::View du = has_mlp() ? pass_mlp_backward(dy, part) : plan::View{};
  const plan::View dh = b_.scratch(path() + ".norm2.dh", e_.act, R_ * shape_.width);
  const plan::View h = experts_ ? layers_.gathered(mlp + "/experts/backward", norm2_.h) : plan::View{};
  if (experts_) experts_->backward(h, e_.split ? norm2_.h : h, dh);
  if (has_mlp()) layers_.linear_backward_input(mlp + "/fc1", fc1_, du, dh, R_, experts_.has_value());
  // The weight gradient runs under the reduction of the input gradient.
  const plan::View h2 = e_.split   ? norm2_.h
                        : experts_ ? h
                                   : layers_.gathered(mlp + "/fc1/backward_weight", norm2_.h);
  const plan::View dh2 = layers_.result(mlp + "/fc1/backward_input", dh);
  if (has_mlp()) layers_.linear_backward_weight(mlp + "/fc1", fc1_, h2, du, R_);
  return dh2;
}

// dy -> the gradient of fc1's result
plan::View Block::pass_mlp_backward(const plan::View& dy, const plan::View& part) {
  const std::string mlp = path() + "/mlp";
  const plan::View du = e_.operand(path() + ".du", e_.act, R_ * fc1_.out);
  const plan::View dg = shape_.swiglu ? b_.scratch(path() + ".dg", e_.act, R_ * fc2_.in) : du;
  layers_.linear_backward_input(mlp + "/fc2", fc2_, dy, dg, R_);
  layers_.linear_backward_weight(mlp + "/fc2", fc2_, g_, e_.split ? part : dy, R_);
  if (shape_.swiglu)
    b_.emit<plan::OpKind::swiglu_backward>(mlp + "/swiglu/backward", {.rows = R_, .cols = fc2_.in}, {u_, dg},
                                           {du});
  else
    b_.emit<plan::OpKind::activation_backward>(mlp + "/gelu/backward", activation_rows(), {u_, du},
                                               {du, b_.grad(fc1_.bias)});
  return du;
}

// The gradient of attention's result
plan::View Block::result_backward(const plan::View& part) {
  const std::string attn = path() + "/attn";
  const plan::View dy = layers_.gathered(attn + "/proj/backward", part);
  const plan::View d_o = b_.scratch(path() + ".do", e_.act, R_ * proj_.in);
  layers_.linear_backward_input(attn + "/proj", proj_, dy, d_o, R_);
  const plan::View o =
      latent_ ? latent_->values("/backward", core_.o, e_.operand(path() + ".values", e_.act, R_ * proj_.in))
              : core_.o;
  layers_.linear_backward_weight(attn + "/proj", proj_, o, e_.split ? part : dy, R_);
  return latent_ ? latent_->values_backward(d_o) : d_o;
}

plan::View Block::attention_backward(const plan::View& part) {
  const std::string attn = path() + "/attn";
  dropout_backward(attn, part, attn_mask_, proj_, attention_stream());
  if (recompute_core_) attention_core_.forward(path(), core_, false, "/recompute");
  const plan::View d_o = result_backward(part);
  const plan::View dqkv = e_.operand(path() + ".dqkv", e_.act, R_ * qkv_width_);
  attention_core_.backward(path(), core_, d_o, dqkv);
  if (shape_.rotary && !latent_) rotary(plan::OpKind::rotary_backward, attn + "/rotary/backward", dqkv);
  if (shape_.qk_norm) head_norms_backward(dqkv);
  if (qkv_.bias)
    b_.emit<plan::OpKind::column_sum>(attn + "/qkv/backward_bias",
                                      {.rows = R_, .cols = qkv_width_, .accumulate = e_.accumulates()},
                                      {dqkv}, {b_.grad(qkv_.bias)});
  const plan::View dh = b_.scratch(path() + ".norm1.dh", e_.act, R_ * shape_.width);
  if (latent_)
    latent_->backward(dqkv, dh);
  else
    layers_.linear_backward_input(attn + "/qkv", qkv_, dqkv, dh, R_);
  const plan::View h1 = e_.split ? norm1_.h : layers_.gathered(attn + "/qkv/backward_weight", norm1_.h);
  const plan::View dh1 = layers_.result(attn + "/qkv/backward_input", dh);
  if (latent_)
    latent_->backward_weight(h1);
  else
    layers_.linear_backward_weight(attn + "/qkv", qkv_, h1, dqkv, R_);
  return dh1;
}

std::string block_path(int64_t i) {
  return (i < 10 ? "block0" : "block") + std::to_string(i);
}

std::unique_ptr<Block> block_of(int64_t i, Emission& e, const Sharding& at, const BlockShape& shape) {
  return std::make_unique<Block>(static_cast<int>(i) + 1, block_path(i), "blocks." + std::to_string(i), e, at,
                                 shape);
}

std::vector<plan::Stream> chained(int32_t parts, const Sharding& at, const BlockShape& shape) {
  std::vector<plan::Stream> streams;
  for (int32_t i = 1; i < parts; ++i) streams.push_back({"x", i - 1, i, shape.stream, at.rows * shape.width});
  return streams;
}

}  // namespace isobar::nets
