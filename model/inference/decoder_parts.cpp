#include "model/inference/decoder_parts.h"

#include <algorithm>

#include "model/backend/cpu/isa/kernels.h"

namespace isobar::inference {
namespace {

template <class T>
T* room(std::vector<T>& v, int64_t n) {
  v.resize(static_cast<size_t>(n));
  return v.data();
}

cpu::Gemm product(int64_t m, int64_t n, int64_t k) {
  return {m, n, k, false, true, DType::f32, DType::f32, DType::f32, false, false};
}

void multiply(int64_t rows, int64_t out, int64_t in, const float* x, const std::vector<float>& weight,
              float* y) {
  cpu::gemm(product(rows, out, in), x, weight.data(), nullptr, y);
}

}  // namespace

// ---- experts ----

DecoderExperts::DecoderExperts(const LlamaSpec& net, const TrainedWeights& weights, const std::string& name)
    : spec_(net.experts),
      experts_(net.experts.num_experts),
      top_(net.experts.num_experts_per_tok),
      width_(net.embed_dim),
      hidden_(net.expert_hidden()),
      router_(weights.merged(name + ".router.weight")) {
  if (spec_.has_bias()) bias_ = weights.merged(name + ".router.bias");
  const auto append = [&](std::vector<float>& to, const std::string& tensor) {
    const std::vector<float> values = weights.merged(tensor);
    to.insert(to.end(), values.begin(), values.end());
  };
  for (int64_t i = 0; i < experts_; ++i) {
    const std::string expert = name + ".experts." + std::to_string(i);
    append(up_, expert + ".gate.weight");
    append(up_, expert + ".up.weight");
    append(down_, expert + ".fc2.weight");
  }
}

void DecoderExperts::operator()(int64_t tokens, const float* h, float* y) {
  const int64_t copies = tokens * top_;
  float* const logits = room(logits_, tokens * experts_);
  multiply(tokens, experts_, width_, h, router_, logits);
  const cpu::Route route{.rows = tokens,
                         .experts = experts_,
                         .top = top_,
                         .tokens = tokens,
                         .sample = tokens,
                         .normalised = spec_.norm_topk_prob,
                         .factor = static_cast<float>(spec_.routed_scaling_factor),
                         .sigmoid = spec_.has_bias(),
                         .groups = spec_.n_group,
                         .top_groups = spec_.topk_group};
  cpu::route(route, logits, bias_.empty() ? nullptr : bias_.data(), nullptr,
             {room(order_, copies), room(place_, copies), room(chosen_, copies), room(offsets_, experts_ + 1),
              room(weights_, copies), room(lse_, tokens), room(sums_, 2 * experts_)});
  float *const x = room(x_, copies * width_), *const wide = room(wide_, 2 * copies * hidden_),
               *const narrow = room(narrow_, copies * hidden_);
  cpu::gather({1, copies, width_, tokens, 0, DType::f32, DType::f32}, nullptr, h, order_.data(), nullptr,
              nullptr, x);
  cpu::grouped_gemm(product(copies, 2 * hidden_, width_), experts_, offsets_.data(), x, up_.data(), wide);
  cpu::swiglu(copies, hidden_, DType::f32, wide, narrow, weights_.data());
  cpu::grouped_gemm(product(copies, width_, hidden_), experts_, offsets_.data(), narrow, down_.data(), x);
  cpu::combine(tokens, width_, top_, DType::f32, x, place_.data(), tokens * top_, y);
}

// ---- latent attention ----

DecoderLatent::DecoderLatent(const LlamaSpec& net, const TrainedWeights& weights, const std::string& name)
    : n_(net.latent),
      heads_(net.num_heads),
      width_(net.embed_dim),
      eps_(static_cast<float>(net.norm_eps)),
      kv_down_(weights.merged(name + ".attn.kv_down.weight")),
      kv_norm_(weights.merged(name + ".attn.kv_norm.weight")),
      q_(weights.merged(name + ".attn.q.weight")),
      kv_(weights.merged(name + ".attn.kv.weight")) {
  if (n_.q_lora_rank == 0) return;
  q_down_ = weights.merged(name + ".attn.q_down.weight");
  q_norm_ = weights.merged(name + ".attn.q_norm.weight");
}

void DecoderLatent::normalise(int64_t tokens, int64_t width, const std::vector<float>& gamma, const float* x,
                              float* h) {
  cpu::rms_norm({tokens, width, eps_, DType::f32, DType::f32}, x, nullptr, gamma.data(), nullptr, h,
                room(rstd_, tokens));
}

void DecoderLatent::operator()(int64_t tokens, const float* h, const float* angles, float* q, float* keys,
                               float* values) {
  const int64_t rank = n_.q_lora_rank, d = n_.qk_head_dim(), kv_rank = n_.kv_lora_rank,
                wide = kv_rank + n_.qk_rope_head_dim, width = heads_ * d;
  float* const of_q = room(heads_q_, tokens * width);
  if (rank > 0) {
    multiply(tokens, rank, width_, h, q_down_, room(latents_, tokens * rank));
    normalise(tokens, rank, q_norm_, latents_.data(), room(normed_, tokens * rank));
  }
  multiply(tokens, width, rank > 0 ? rank : width_, rank > 0 ? normed_.data() : h, q_, of_q);
  multiply(tokens, wide, width_, h, kv_down_, room(latents_, tokens * wide));
  float* const of_kv = room(normed_, tokens * kv_rank);
  cpu::rms_norm({tokens, kv_rank, eps_, DType::f32, DType::f32, 1, wide, kv_rank}, latents_.data(), nullptr,
                kv_norm_.data(), nullptr, of_kv, room(rstd_, tokens));
  const int64_t both = heads_ * (n_.qk_nope_head_dim + n_.v_head_dim);
  multiply(tokens, both, kv_rank, of_kv, kv_, room(heads_kv_, tokens * both));
  cpu::latent_heads({.rows = tokens,
                     .heads = heads_,
                     .nope = n_.qk_nope_head_dim,
                     .rope = n_.qk_rope_head_dim,
                     .v = n_.v_head_dim,
                     .ld_key = wide,
                     .tokens = tokens,
                     .act = DType::f32},
                    angles, of_q, heads_kv_.data(), latents_.data() + kv_rank,
                    room(all_, tokens * 3 * width));
  float* const to[] = {q, keys, values};
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t i = 0; i < 3; ++i) std::copy_n(all_.data() + (3 * t + i) * width, width, to[i] + t * width);
}

const float* DecoderLatent::values_of(int64_t tokens, const float* o) {
  const int64_t d = n_.qk_head_dim(), v = n_.v_head_dim;
  float* const to = room(narrow_, tokens * heads_ * v);
  for (int64_t i = 0; i < tokens * heads_; ++i) std::copy_n(o + i * d, v, to + i * v);
  return to;
}

}  // namespace isobar::inference
