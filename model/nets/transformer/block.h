// The pre-norm transformer block: its parameters and its ops, forward and backward side by side, in execution
// order, under tensor and context parallelism.
//
// Tensor parallelism (Shoeybi 2019): qkv and fc1 are cut by output (heads, hidden), proj and fc2 by input;
// one reduction for each half of the block and direction, in the activations' type. With sequence parallelism
// (Korthikanti 2022) the reductions become reduce-scatters; the inputs of qkv and fc1 are kept cut and
// gathered again for their weight gradients. Context parallelism is all in context_parallel.h.
//
// Given windows, attention is inside them (Swin, Liu 2021), with its communication (windows/attention.h).
//
// In place of the MLP, or beside it, there may be a mixture of experts (experts.h).
//
// Full recomputation (Chen 2016) keeps the residual stream at the first of a run of blocks, and repeats their
// forward before the backward of the last. All that is recomputed is scratch.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/nets/net.h"
#include "model/nets/transformer/block_shape.h"
#include "model/nets/transformer/context_parallel.h"
#include "model/nets/transformer/experts.h"
#include "model/nets/transformer/latent.h"
#include "model/nets/windows/attention.h"

namespace isobar::nets {

class Block : public NetPart {
 public:
  /// `name`: prefix of its parameters' names, "blocks.7". `windows`: nullptr attends to all tokens;
  /// `relative_bias`: a bias by the distance of two tokens of a window.
  Block(int index, std::string path, std::string name, Emission& e, const Sharding& at,
        const BlockShape& shape, Windows* windows = nullptr, bool relative_bias = false);

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  plan::View receive_buffer(size_t) override;
  std::vector<Flow> kept_inputs() const override { return {{.x = norm1_.x}}; }
  int shares_gradient_with(size_t) const override { return 0; }
  /// After a step's metrics: biases of experts move.
  void after_metrics() {
    if (experts_) experts_->shift_bias();
  }
  plan::View last_gradient(bool weight) const override {
    return !weight     ? norm1_.gamma
           : windowed_ ? windowed_->weight()
           : latent_   ? latent_->first_weight()
                       : qkv_.weight;
  }

 private:
  plan::ActivationAttrs activation_rows() const;
  void head_norms(const std::string& pass, bool keep);
  void head_norms_backward(const plan::View& dqkv);
  Rows rows_of(int64_t heads) const { return {R_, heads, qkv_width_, qkv_width_}; }
  plan::View heads_of(const plan::View& qkv, bool keys) const;
  void rotary(plan::OpKind kind, const std::string& path, const plan::View& qkv);
  void dropout_backward(const std::string& path, const plan::View& dy, const plan::View& mask,
                        const Linear& of, int64_t stream);
  int64_t attention_stream() const { return 2 * index(); }  // of random numbers
  int64_t mlp_stream() const { return 2 * index() + 1; }
  void declare_attention(Declare& d);
  plan::View attention(const std::string& pass, bool keep);
  plan::View attention_inputs(const std::string& pass, bool keep);
  plan::View result_backward(const plan::View& part);
  plan::View attention_backward(const plan::View& part);
  plan::View mlp(const std::string& pass, bool keep, bool result);
  void declare_mlp(Declare& d);
  void widen(const std::string& pass, const plan::View& h, bool keep);
  plan::View mlp_backward(const plan::View& part);
  plan::View pass_mlp_backward(const plan::View& dy, const plan::View& part);
  bool has_mlp() const { return shape_.hidden > 0; }

  const std::string name_;
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const BlockShape shape_;
  // On this rank: attention's width, the width of queries, keys and values together, full rows
  const int64_t width_, qkv_width_, R_;
  const bool recompute_core_;
  AttentionCore attention_core_;
  std::optional<WindowAttention> windowed_;
  std::optional<Experts> experts_;
  std::optional<LatentAttention> latent_;

  Flow in_;
  Norm norm1_, norm2_, q_norm_, k_norm_;
  Linear qkv_, proj_, fc1_, fc2_;
  Core core_;                        // operands and results of attention proper
  plan::View attn_mask_, mlp_mask_;  // [rows,D] bytes: dropout masks
  plan::View u_, g_;  // [full_rows,hidden/tp] act: before and after the activation; SwiGLU: u has gate and up
};

/// "block07"
std::string block_path(int64_t i);

/// The i-th block of a chain whose first part is the embedding
std::unique_ptr<Block> block_of(int64_t i, Emission& e, const Sharding& at, const BlockShape& shape);
/// The stream of a chain of `parts` parts
std::vector<plan::Stream> chained(int32_t parts, const Sharding& at, const BlockShape& shape);

}  // namespace isobar::nets
