// Parts of a decoder's block that not all nets have.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/inference/weights/trained_weights.h"

namespace isobar::inference {

/// A mixture of experts (nets/transformer/experts.h), without shared ones.
class DecoderExperts {
 public:
  /// `name`: of the block's MLP. Throws ConfigError naming a parameter that the weights lack.
  DecoderExperts(const LlamaSpec& net, const TrainedWeights& weights, const std::string& name);
  /// h -> y, [tokens, embed_dim]
  void operator()(int64_t tokens, const float* h, float* y);

 private:
  const ExpertsSpec spec_;
  const int64_t experts_, top_, width_, hidden_;
  std::vector<float> router_, bias_, up_, down_;  // up: gate and up of each expert
  std::vector<float> logits_, weights_, lse_, sums_, x_, wide_, narrow_;
  std::vector<int32_t> order_, place_, chosen_, offsets_;
};

/// Queries, keys and values of latent attention (nets/transformer/latent.h).
class DecoderLatent {
 public:
  /// `name`: of the block. Throws ConfigError naming a parameter that the weights lack.
  DecoderLatent(const LlamaSpec& net, const TrainedWeights& weights, const std::string& name);
  /// h [tokens, embed_dim] -> q, keys, values [tokens, heads * qk]; `angles`: of these tokens' positions
  void operator()(int64_t tokens, const float* h, const float* angles, float* q, float* keys, float* values);
  /// Values' columns of attention's result, [tokens, heads * v]
  const float* values_of(int64_t tokens, const float* o);

 private:
  void normalise(int64_t tokens, int64_t width, const std::vector<float>& gamma, const float* x, float* h);

  const LatentSpec n_;
  const int64_t heads_, width_;
  const float eps_;
  std::vector<float> q_down_, kv_down_, q_norm_, kv_norm_, q_, kv_;
  std::vector<float> latents_, normed_, rstd_, heads_q_, heads_kv_, all_, narrow_;
};

}  // namespace isobar::inference
