// The pre-norm transformer block: what it owns and what it emits, forward and backward side by side, in
// execution order, under tensor and context parallelism.
//
// Tensor parallelism (Shoeybi 2019): qkv and fc1 are cut by output (heads, hidden), proj and fc2 by input;
// one reduction a half of the block each way, in the type of the activations. With sequence parallelism
// (Korthikanti 2022) the reductions become reduce-scatters, and the inputs of qkv and fc1 are gathered: kept
// cut, gathered again for their weight gradients. Context parallelism is all in context_parallel.h.
//
// Full recomputation (Chen 2016) keeps the residual stream at the door of the first of some neighbouring
// blocks, and runs those forward once more when backward comes to the last of them. All that they compute
// again is scratch.
#pragma once
#include <string>

#include "model/nets/block_shape.h"
#include "model/nets/context_parallel.h"
#include "model/nets/net.h"

namespace isobar {

class Block : public NetPart {
 public:
  /// `name`: what its parameters' names begin with, "blocks.7".
  Block(int index, std::string path, std::string name, Emission& e, const Sharding& at,
        const BlockShape& shape);

  void declare(Declare& d) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  View door(size_t) override;
  std::vector<Flow> kept_inputs() const override { return {{.x = norm1_.x}}; }
  int in_place(size_t) const override { return 0; }
  View last_gradient(bool weight) const override { return weight ? qkv_.weight : norm1_.gamma; }

 private:
  Attrs rows(int64_t cols) const;
  Attrs activation_rows() const;
  void rotary(OpKind kind, const std::string& path, const View& qkv);
  View attention(const std::string& pass, bool keep);
  View mlp(const std::string& pass, bool keep, bool result);

  const std::string name_;
  Emission& e_;
  Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const BlockShape shape_;
  // Of this rank: queries' width inside attention, that of queries, keys and values; full rows
  const int64_t width_, qkv_width_, R_;
  const bool recompute_core_;
  AttentionCore attention_core_;

  Flow in_;
  Norm norm1_, norm2_;
  Linear qkv_, proj_, fc1_, fc2_;
  Core core_;   // what attention proper reads and writes
  View u_, g_;  // [full_rows,hidden/tp] act: before and after the activation; SwiGLU: u has gate and up
  View attn_mask_, mlp_mask_;  // [rows,D] bytes: what dropout let through
};

}  // namespace isobar
