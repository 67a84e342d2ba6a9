// The block of Aurora's backbone (Swin v2's in three dimensions, conditioned on the lead time): norms after
// attention and MLP, whose gain and shift are linears of the conditioning (adaptive LayerNorm, Peebles 2023).
//
//   x' = x  + AdaLN(attention in windows (x), s)       s = SiLU(MLP(code of the lead time)) [1, D]: a stream
//   y  = x' + AdaLN(MLP(x'), s)                        that goes from block to block
//
// The zeros that pad the grid take part in attention, as in the published model. All samples of a micro-batch
// share one lead time.
#pragma once
#include <string>

#include "model/nets/aurora/perceiver.h"
#include "model/nets/net.h"
#include "model/nets/windows/attention.h"

namespace isobar::nets::aurora {

/// `stage`: index in the encoder or decoder; `of`: its block.
std::string block_name(bool encoder, int64_t stage, int64_t of);

/// LayerNorm of a result, modulated and added to a stream.
class AdaptiveNorm {
 public:
  AdaptiveNorm(Emission& e, const Sharding& at, std::string path, std::string name, int64_t width,
               int64_t condition, double eps);
  /// Stochastic depth (Huang 2016), in training only: drops a sample's result with probability `rate`, else
  /// scales it by 1/(1 - rate). `stream`: of random numbers, two a part.
  void drops(double rate, int64_t stream) {
    drops_ = true, rate_ = static_cast<float>(rate), stream_ = stream;
  }
  void declare(Declare& d);
  /// x [rows, width] act -> y = residual + AdaLN(x), both f32; s [condition] act
  void forward(const std::string& pass, const plan::View& x, const plan::View& residual, const plan::View& y,
               const plan::View& s, int64_t rows, bool keep);
  /// of_sum: y's gradient, dx [rows, width] act; ds f32 is written or added to; dbias: of the linear before
  void backward(const plan::View& of_sum, const plan::View& dx, const plan::View& ds, bool add,
                const plan::View& dbias, int64_t rows);
  plan::View bias() const { return modulation_.bias; }
  plan::View weight() const { return modulation_.weight; }

 private:
  void drop(plan::OpKind kind, const std::string& path, const plan::View& x, int64_t rows) const;
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const std::string path_, name_;
  const int64_t D_, condition_;
  bool drops_ = false;
  float rate_ = 0;
  int64_t stream_ = 0;
  const float eps_;
  Linear modulation_;
  plan::View x_, mean_, rstd_, shift_scale_, s_;
};

class SwinBlock : public NetPart {
 public:
  struct Shape {
    int64_t width, heads, hidden, condition;
    double eps;
    bool last;  // does not pass the conditioning on
    bool drops = false;
    double drop_path = 0;  // rate for its two results, if it drops
  };
  SwinBlock(int index, std::string path, std::string name, Emission& e, const Sharding& at, Windows& windows,
            const Shape& shape);

  void declare(Declare& d) override;
  plan::View receive_buffer(size_t in) override;
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override;
  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override;
  std::vector<Flow> kept_inputs() const override { return in_; }
  int shares_gradient_with(size_t in) const override {
    return in == kX || !s_.last ? static_cast<int>(in) : -1;
  }
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? attention_.weight() : attention_.qkv_bias();
  }

  static constexpr size_t kX = 0, kCondition = 1;

 private:
  void activate(const std::string& pass, bool keep);
  plan::ActivationAttrs rows_of(int64_t rows, int64_t cols) const;
  void added(const std::string& path, const plan::View& dh, const plan::View& dx) const;

  const std::string name_;
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const Shape s_;
  const int64_t rows_;    // of the grid
  const bool selective_;  // attention proper and GELU are recomputed
  WindowAttention attention_;
  AdaptiveNorm norm1_, norm2_;
  Linear fc1_, fc2_;
  std::vector<Flow> in_;
  plan::View condition_, a_, u_, g_;
};

}  // namespace isobar::nets::aurora
