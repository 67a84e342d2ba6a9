#include "model/inference/decoder.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "model/backend/cpu/isa/kernels.h"
#include "model/base/rng.h"
#include "model/nets/transformer/block_shape.h"
#include "model/nets/transformer/rotary.h"

namespace isobar::inference {
namespace {

void add(int64_t n, const float* x, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

}  // namespace

// ---- weights ----

Decoder::Decoder(const RunSpec& spec, const TrainedWeights& weights)
    : net_(*spec.net.words()),
      llama_(spec.net.kind() == LlamaSpec::kKind),
      activation_(llama_ ? Activation::silu : isobar::nets::activation_of(spec.net.gpt().gelu)),
      head_norms_(llama_ && spec.net.llama().qk_norm),
      window_(llama_ ? spec.net.llama().window() : 0),
      score_growth_(llama_ ? nets::score_growth(spec.net.llama()) : 1),
      d_(llama_ ? spec.net.llama().head_width() : net_.embed_dim / net_.num_heads),
      turned_(llama_ ? spec.net.llama().rotary_width() : d_),
      queries_(net_.num_heads * d_),
      kv_(net_.kv_heads() * d_),
      embed_(weights.merged("embed.weight")) {
  if (llama_)
    rotary_ = nets::rotary_values(spec.net.llama().rotary, turned_, {0, net_.seq_length});
  else
    positions_ = weights.merged("pos_embed");
  for (int64_t i = 0; i < net_.depth; ++i) layers_.push_back(layer(spec, weights, i));
  norm_ = norm(weights, "norm");
  if (!net_.tie_embeddings) head_ = weights.merged("head.weight");
  logits_.resize(static_cast<size_t>(words()));
}

Decoder::Linear Decoder::linear(const TrainedWeights& from, const std::string& name, bool bias) const {
  return {from.merged(name + ".weight"), bias ? from.merged(name + ".bias") : std::vector<float>{}};
}

Decoder::Norm Decoder::norm(const TrainedWeights& from, const std::string& name) const {
  return {from.merged(name + ".weight"), llama_ ? std::vector<float>{} : from.merged(name + ".bias")};
}

Decoder::Layer Decoder::layer(const RunSpec& spec, const TrainedWeights& from, int64_t i) const {
  const std::string name = "blocks." + std::to_string(i), mlp = name + ".mlp";
  Layer l{.norm1 = norm(from, name + ".norm1"),
          .norm2 = norm(from, name + ".norm2"),
          .proj = linear(from, name + ".attn.proj", !llama_),
          .hidden = net_.hidden()};
  if (llama_ && spec.net.llama().latent.any()) {
    l.latent.emplace(spec.net.llama(), from, name);
  } else {
    const bool bias = !llama_ || spec.net.llama().attention_bias;
    l.q = linear(from, name + ".attn.q", bias);
    l.k = linear(from, name + ".attn.k", bias);
    l.v = linear(from, name + ".attn.v", bias);
  }
  const LlamaSpec* const mixed = llama_ && i >= spec.net.llama().dense_blocks() ? &spec.net.llama() : nullptr;
  if (mixed) {
    l.experts.emplace(*mixed, from, mlp);
    l.hidden = mixed->experts.num_shared_experts * mixed->expert_hidden();
  }
  if (l.hidden > 0) add_mlp(l, from, mixed ? mlp + ".shared" : mlp);
  if (head_norms_) l.q_norm = norm(from, name + ".attn.q_norm"), l.k_norm = norm(from, name + ".attn.k_norm");
  l.keys.resize(static_cast<size_t>(net_.seq_length * kv_));
  l.values.resize(l.keys.size());
  return l;
}

void Decoder::add_mlp(Layer& l, const TrainedWeights& from, const std::string& name) const {
  l.down = linear(from, name + ".fc2", !llama_);
  if (llama_) {  // gate, then up: one product, whose rows swiglu reads
    l.up.weight = from.merged(name + ".gate.weight");
    const std::vector<float> up = from.merged(name + ".up.weight");
    l.up.weight.insert(l.up.weight.end(), up.begin(), up.end());
  } else {
    l.up = linear(from, name + ".fc1", !llama_);
  }
}

// ---- a call ----

std::span<const float> Decoder::operator()(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t D = net_.embed_dim;
  make_room(n);
  cpu::embedding({.rows = n,
                  .cols = D,
                  .first = 0,
                  .words = words(),
                  .tokens = {read_, n},
                  .table = DType::f32,
                  .act = DType::f32},
                 tokens.data(), embed_.data(), llama_ ? nullptr : positions_.data(), x_.data());
  for (Layer& l : layers_) {
    normalise(l.norm1, n, D, x_.data(), h_.data());
    attend(l, n);
    add(n * D, y_.data(), x_.data());
    normalise(l.norm2, n, D, x_.data(), h_.data());
    pass_mlp(l, n);
    add(n * D, y_.data(), x_.data());
  }
  read_ += n;
  normalise(norm_, 1, D, x_.data() + (n - 1) * D, h_.data());
  const std::vector<float>& head = head_.empty() ? embed_ : head_;
  cpu::gemm({1, words(), D, false, true, DType::f32, DType::f32, DType::f32, false, false}, h_.data(),
            head.data(), nullptr, logits_.data());
  return logits_;
}

void Decoder::make_room(int64_t tokens) {
  const auto floats = [&](int64_t cols) { return static_cast<size_t>(tokens * cols); };
  for (std::vector<float>* v : {&x_, &y_, &h_}) v->resize(floats(net_.embed_dim));
  for (std::vector<float>* v : {&q_, &o_}) v->resize(floats(queries_));
  int64_t hidden = 0;
  for (const Layer& l : layers_) hidden = std::max(hidden, l.hidden);
  wide_.resize(floats((llama_ ? 2 : 1) * hidden));
  hidden_.resize(floats(hidden));
  statistics_.resize(floats(std::max<int64_t>(2, net_.num_heads)));
}

void Decoder::normalise(const Norm& n, int64_t rows, int64_t cols, const float* x, float* h) {
  const auto eps = static_cast<float>(net_.norm_eps);
  if (llama_)
    cpu::rms_norm({rows, cols, eps, DType::f32, DType::f32}, x, nullptr, n.gamma.data(), nullptr, h,
                  statistics_.data());
  else
    cpu::residual_norm_forward({.rows = rows, .cols = cols, .eps = eps, .period = 0, .act = DType::f32}, x,
                               nullptr, n.gamma.data(), n.beta.data(), nullptr, h, statistics_.data(),
                               statistics_.data() + rows);
}

void Decoder::multiply(const Linear& l, int64_t tokens, int64_t out, int64_t in, const float* x, float* y,
                       bool adds) const {
  cpu::gemm({tokens, out, in, false, true, DType::f32, DType::f32, DType::f32, !l.bias.empty(), adds}, x,
            l.weight.data(), l.bias.data(), y);
}

void Decoder::turn(int64_t tokens, int64_t cols, float* x) const {
  if (!llama_) return;
  cpu::rotary({.rows = tokens, .cols = cols, .ld = cols, .d = d_, .tokens = tokens, .act = DType::f32}, false,
              rotary_.data() + read_ * d_, x);
}

// h -> queries; new keys and values go behind those of the tokens before.
void Decoder::find_heads(Layer& l, int64_t tokens) {
  const int64_t D = net_.embed_dim;
  float *const keys = l.keys.data() + read_ * kv_, *const values = l.values.data() + read_ * kv_;
  if (l.latent)
    return (*l.latent)(tokens, h_.data(), rotary_.data() + read_ * turned_, q_.data(), keys, values);
  multiply(l.q, tokens, queries_, D, h_.data(), q_.data());
  multiply(l.k, tokens, kv_, D, h_.data(), keys);
  multiply(l.v, tokens, kv_, D, h_.data(), values);
  if (head_norms_) {
    normalise(l.q_norm, tokens * net_.num_heads, d_, q_.data(), q_.data());
    normalise(l.k_norm, tokens * net_.kv_heads(), d_, keys, keys);
  }
  turn(tokens, queries_, q_.data());
  turn(tokens, kv_, keys);
}

// h -> y
void Decoder::attend(Layer& l, int64_t tokens) {
  find_heads(l, tokens);
  const cpu::Attention a{.batch = 1,
                         .heads = net_.num_heads,
                         .kv_heads = net_.kv_heads(),
                         .tq = tokens,
                         .tk = read_ + tokens,
                         .d = d_,
                         .scale = static_cast<float>(score_growth_ / std::sqrt(static_cast<double>(d_))),
                         .causal = true,
                         .act = DType::f32,
                         .ld_q = queries_,
                         .ld_kv = kv_,
                         .ld_o = queries_,
                         .window = window_};
  const Arena workspace(cpu::attention_workspace(a, false, omp_get_max_threads()));
  cpu::attention_forward(a, q_.data(), l.keys.data(), l.values.data(), o_.data(), statistics_.data(),
                         workspace.data());
  const float* const o = l.latent ? l.latent->values_of(tokens, o_.data()) : o_.data();
  multiply(l.proj, tokens, net_.embed_dim, static_cast<int64_t>(l.proj.weight.size()) / net_.embed_dim, o,
           y_.data());
}

// h -> y
void Decoder::pass_mlp(Layer& l, int64_t tokens) {
  const int64_t D = net_.embed_dim;
  if (l.experts) (*l.experts)(tokens, h_.data(), y_.data());
  if (l.hidden == 0) return;
  multiply(l.up, tokens, llama_ ? 2 * l.hidden : l.hidden, D, h_.data(), wide_.data());
  if (llama_)
    cpu::swiglu(tokens, l.hidden, DType::f32, wide_.data(), hidden_.data());
  else
    cpu::activation_forward(activation_, tokens * l.hidden, DType::f32, wide_.data(), hidden_.data());
  multiply(l.down, tokens, D, l.hidden, hidden_.data(), y_.data(), l.experts.has_value());
}

// ---- choice of a word ----

int32_t drawn(std::span<const float> logits, const Draw& how, uint64_t index) {
  const auto most = std::max_element(logits.begin(), logits.end());
  if (how.temperature == 0) return static_cast<int32_t>(most - logits.begin());
  std::vector<double> upto;  // cumulative probabilities, not normalised
  double sum = 0;
  for (const float x : logits)
    upto.push_back(sum += std::exp((static_cast<double>(x) - static_cast<double>(*most)) / how.temperature));
  const double at = sum * static_cast<double>(uniform(how.seed, 0, index));
  const auto word = std::upper_bound(upto.begin(), upto.end(), at) - upto.begin();
  return static_cast<int32_t>(std::min<int64_t>(word, static_cast<int64_t>(logits.size()) - 1));
}

}  // namespace isobar::inference
