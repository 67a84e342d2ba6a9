// The head of a net on a graph: an MLP from the predicted nodes' stream to channels, and the loss.
#pragma once
#include <string>
#include <vector>

#include "model/nets/feature_embed.h"
#include "model/nets/graph/graph_mlp.h"
#include "model/nets/points.h"

namespace isobar::nets {

class GraphHead : public NetPart {
 public:
  /// `stream`: of the predicted nodes. `shape`: of the net's MLPs. `order`: the point of each prediction; {}:
  /// identity
  GraphHead(int index, Emission& e, const Sharding& at, const std::string& stream,
            const ImageShape& predicted, const MlpShape& shape, std::vector<int32_t> order)
      : NetPart(index, "head"),
        e_(e),
        b_(e.b),
        at_(at),
        predicted_(predicted),
        points_(e.b, at, "head", std::move(order)),
        stream_("head." + stream),
        D_(shape.out),
        loss_(e, at, predicted_),
        mlp_(e, at, "head", "head", {{"0", D_}}, to_channels(shape, predicted.channels)) {}
  void set_target(const plan::View& v) { target_ = v; }
  void set_mask(const plan::View& v) { mask_ = v; }
  const ImageShape& predicted() const { return predicted_; }

  void declare(Declare& d) override { mlp_.declare(d); }
  plan::View receive_buffer(size_t) override {
    const plan::InPart here(b_, index());
    return b_.saved_or_scratch(stream_, DType::f32, at_.rows * D_, e_.act == DType::f32);
  }
  plan::View last_gradient(bool weight) const override { return mlp_.last_gradient(weight); }

  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward&) override {
    x_ = as_act(e_, "head/cast", "head.x", in[0].x, true);
    mlp_.first("/forward", {x_}, at_.rows, true);
    pred_ = mlp_.rest("/forward", at_.rows, true);
    wanted_ = of_points("target", target_);
    counts_ = mask_ ? of_points("mask", mask_) : mask_;
    loss_.forward(pred_, wanted_, counts_);
    return {};
  }

  void backward(const std::vector<Gradient>&, std::vector<Gradient>& in) override {
    const plan::View du = mlp_.backward(loss_.backward(pred_, wanted_, counts_), at_.rows);
    mlp_.backward_operand(0, x_, du, in[0].dx, at_.rows, false);
  }

 protected:
  /// The part of a batch's target or mask that lies on the predicted points, in their order
  virtual plan::View of_points(const std::string& what, const plan::View& of) = 0;

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const ImageShape predicted_;
  OwnPoints points_;

 private:
  static MlpShape to_channels(MlpShape s, int64_t channels) {
    s.out = channels, s.norm = false;
    return s;
  }
  const std::string stream_;
  const int64_t D_;
  PixelLoss loss_;
  GraphMlp mlp_;
  plan::View target_, mask_, x_, pred_;
  plan::View wanted_, counts_;  // target and mask in the prediction's order
};

}  // namespace isobar::nets
