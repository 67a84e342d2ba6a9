#include "model/inference/decoder_experts.h"

#include "model/backend/cpu/isa/kernels.h"

namespace isobar::inference {
namespace {

cpu::Gemm product(int64_t m, int64_t n, int64_t k) {
  return {m, n, k, false, true, DType::f32, DType::f32, DType::f32, false, false};
}

}  // namespace

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
  const auto room = [](auto& v, int64_t n) {
    v.resize(static_cast<size_t>(n));
    return v.data();
  };
  float* const logits = room(logits_, tokens * experts_);
  cpu::gemm(product(tokens, experts_, width_), h, router_.data(), nullptr, logits);
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

}  // namespace isobar::inference
