// A block's mixture of experts in a decoder (nets/transformer/experts.h), without shared ones.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/inference/weights/trained_weights.h"

namespace isobar::inference {

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

}  // namespace isobar::inference
