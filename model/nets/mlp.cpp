// Linears with an activation after each but the last (MlpSpec), as in emulators of a column's physics.
//
//   embed   input [B, in] -> linear -> activation -> x [B, hidden 0]
//   layer   x [B, hidden i] -> linear -> activation -> x [B, hidden i+1], × hidden layers - 1
//   head    x -> linear -> prediction [B, out] -> loss, and each output's error
//
// Streams are in the type of activations. The loss is that of images of one pixel. With train.loss:
// cross_entropy the outputs are logits, the target is one number, the class, and the share of samples with
// the right largest logit is reported beside the loss. net.dropout acts on each x.
#include <algorithm>
#include <cmath>

#include "model/base/classes.h"
#include "model/nets/declare.h"
#include "model/nets/images/pixels.h"
#include "model/nets/kinds.h"
#include "model/nets/transformer/cross_entropy.h"

namespace isobar::nets {
namespace {

// PyTorch's name: its index among all linears
std::string name_of_layer(int64_t i) {
  return "layers." + std::to_string(i);
}

// Xavier uniform (Glorot 2010); biases begin at zero.
void declare_linear(Declare& d, Linear& l, int64_t i, int64_t in, int64_t out) {
  const float bound = std::sqrt(6.0f / static_cast<float>(in + out));
  d.linear(l, in, out, {{name_of_layer(i) + ".weight", {out, in}, plan::Init::uniform, bound}},
           {{name_of_layer(i) + ".bias", {out}, plan::Init::zero}});
}

/// A linear and its activation. The net's first reads the batch, in f32, and no stream.
class Layer : public NetPart {
 public:
  Layer(int index, std::string path, Emission& e, const Sharding& at, int64_t in, int64_t out,
        Activation activation)
      : NetPart(index, std::move(path)),
        e_(e),
        b_(e.b),
        at_(at),
        layers_(e, at),
        in_(in),
        out_(out),
        activation_(activation) {}
  void set_input(const plan::View& v) { input_ = v; }

  void declare(Declare& d) override { declare_linear(d, linear_, index(), in_, out_); }
  plan::View receive_buffer(size_t) override {
    const plan::InPart here(b_, index());
    return b_.saved(path() + ".x", e_.act, at_.rows * in_);
  }
  std::vector<Flow> kept_inputs() const override { return {{.x = x_}}; }
  // A split backward writes the weight's gradient later.
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? linear_.weight : linear_.bias;
  }
  std::vector<int> backward_reads() const override {
    return index() == 0 && !e_.to_input() ? std::vector<int>{} : std::vector<int>{index()};
  }

  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    x_ = in.empty() ? input_as_activations() : in[0].x;
    u_ = b_.saved_or_scratch(path() + ".u", e_.act, at_.rows * out_, how.keep == Keep::all);
    layers_.linear_forward(path() + "/linear" + how.pass(), linear_, x_, u_, at_.rows, linear_.bias);
    if (!how.result) return {{}};
    const plan::View g =
        how.recompute ? b_.scratch(path() + ".g", e_.act, at_.rows * out_) : how.output_place(0);
    b_.emit<plan::OpKind::activation>(path() + "/activation" + how.pass(), sizes(), {u_}, {g});
    layers_.dropout(path() + "/dropout" + how.pass(), g, false, index());
    return {{.x = g}};
  }

  void backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) override {
    const plan::View dg = out[0].dx;
    layers_.dropout_backward(path() + "/dropout/backward", dg, {}, index());
    const plan::View du = e_.split ? e_.operand(path() + ".du", e_.act, at_.rows * out_) : dg;
    b_.emit<plan::OpKind::activation_backward>(path() + "/activation/backward", sizes(), {u_, dg},
                                               {du, b_.grad(linear_.bias)});
    if (e_.to_input() && in.empty()) b_.plan.input_gradient = b_.io("input_gradient", e_.act, at_.rows * in_);
    const plan::View dx = in.empty() ? b_.plan.input_gradient : in[0].dx;
    if (dx) layers_.linear_backward_input(path() + "/linear", linear_, du, dx, at_.rows);
    layers_.linear_backward_weight(path() + "/linear", linear_, x_, du, at_.rows);
  }

 private:
  plan::ActivationAttrs sizes() const {
    return {.rows = at_.rows, .cols = out_, .accumulate = e_.accumulates(), .function = activation_};
  }
  plan::View input_as_activations() {
    if (e_.act == DType::f32) return input_;
    const plan::View x = b_.saved(path() + ".x", e_.act, input_.count);
    b_.emit<plan::OpKind::cast>(path() + "/cast", {.count = input_.count}, {input_}, {x});
    return x;
  }

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const int64_t in_, out_;
  const Activation activation_;
  Linear linear_;
  plan::View input_, x_, u_;  // x, u [rows, in], [rows, out] act: before and after the linear
};

class Head : public NetPart {
 public:
  Head(int index, Emission& e, const Sharding& at, int64_t in, const ImageShape& pixel)
      : NetPart(index, "head"),
        e_(e),
        b_(e.b),
        at_(at),
        layers_(e, at),
        loss_(e, at, pixel),
        classes_(classifies(e.spec)),
        in_(in),
        out_(pixel.channels) {}
  void set_target(const plan::View& v) { target_ = v; }

  void declare(Declare& d) override { declare_linear(d, linear_, index(), in_, out_); }
  plan::View receive_buffer(size_t) override {
    const plan::InPart here(b_, index());
    return b_.saved("head.x", e_.act, at_.rows * in_);
  }
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? linear_.weight : linear_.bias;
  }

  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward&) override {
    x_ = in[0].x;
    pred_ = b_.saved("pred", e_.act, at_.rows * out_);
    layers_.linear_forward("head/linear/forward", linear_, x_, pred_, at_.rows, linear_.bias);
    if (!classes_) {
      loss_.forward(pred_, target_, plan::View{});
      return {};
    }
    dlogits_ = b_.saved("dlogits", e_.act, at_.rows * out_);
    cross_entropy_forward(e_, at_, {.rows = at_.rows, .cols = out_}, pred_, target_, dlogits_);
    return {};
  }

  void backward(const std::vector<Gradient>&, std::vector<Gradient>& in) override {
    const plan::View dpred = classes_ ? dlogits_ : loss_.backward(pred_, target_, plan::View{});
    b_.emit<plan::OpKind::column_sum>("head/linear/backward_bias",
                                      {.rows = at_.rows, .cols = out_, .accumulate = e_.accumulates()},
                                      {dpred}, {b_.grad(linear_.bias)});
    layers_.linear_backward_input("head/linear", linear_, dpred, in[0].dx, at_.rows);
    layers_.linear_backward_weight("head/linear", linear_, x_, dpred, at_.rows);
  }

 private:
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  PixelLoss loss_;
  const bool classes_;  // the outputs are logits
  const int64_t in_, out_;
  Linear linear_;
  plan::View target_, x_, pred_, dlogits_;
};

std::string layer_path(int64_t i) {
  return i == 0 ? "embed" : (i < 10 ? "layer0" : "layer") + std::to_string(i);
}

ImageShape one_pixel(int64_t channels) {
  return {channels, 1, 1, 1};
}

class Mlp : public Net {
 public:
  Mlp(const MlpSpec& n, Emission& e, const Sharding& at) : input_(one_pixel(n.in_features)), at_(at) {
    const Activation activation = n.activation;
    e.dropout = n.dropout;
    int64_t in = n.in_features;
    for (int i = 0; i < n.blocks(); ++i) {
      const int64_t out = n.hidden[i];
      Layer* const layer = add_part(std::make_unique<Layer>(i, layer_path(i), e, at, in, out, activation));
      if (i == 0) first_ = layer;
      streams_.push_back({"x", i, i + 1, e.act, at.rows * out});
      in = out;
    }
    const int last = here();
    head_ = add_part(std::make_unique<Head>(last, e, at, in, one_pixel(n.out_features)));
    batch_ = {{"input", plan::BatchRole::input, 0, DType::f32, n.in_features, at.rows * n.in_features,
               e.act == DType::f32},
              {"target", plan::BatchRole::target, last, DType::f32, n.out_features, at.rows * n.out_features,
               true}};
    metrics_ = {{"loss", 0, 1}, {"mae", 1, n.out_features}};  // the RMSE of one pixel is its error
    if (!classifies(e.spec)) return;
    batch_.back().sample = 1, batch_.back().count = at.rows;
    metrics_.back() = {"accuracy", 1, 1};
  }
  plan::ImageAttrs fetch() const override { return image_attrs(input_, at_); }
  void fetched(size_t tensor, const plan::View& v) override {
    tensor == 0 ? first_->set_input(v) : head_->set_target(v);
  }

 private:
  const ImageShape input_;
  const Sharding& at_;
  Layer* first_ = nullptr;
  Head* head_;
};

}  // namespace

std::unique_ptr<Net> make_net(const MlpSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<Mlp>(n, e, at);
}

std::vector<plan::Part> parts_of(const MlpSpec& n) {
  std::vector<plan::Part> parts{{"embed", "embed", 0}};
  for (int64_t i = 1; i < n.blocks(); ++i) {
    int64_t alike = 1;  // the first layer with these widths
    while (n.hidden[alike - 1] != n.hidden[i - 1] || n.hidden[alike] != n.hidden[i]) ++alike;
    parts.push_back({"layer", layer_path(i), static_cast<int32_t>(alike)});
  }
  parts.push_back({"head", "head", static_cast<int32_t>(parts.size())});
  return parts;
}

// Three equal layers have four equal widths around them.
MlpSpec distinct_parts(MlpSpec n) {
  constexpr size_t kMost = 4;
  std::vector<int64_t> kept;
  for (const int64_t width : n.hidden) {
    const size_t k = kept.size();
    const bool equal = k >= kMost && std::all_of(kept.end() - kMost, kept.end(),
                                                 [&](int64_t before) { return before == width; });
    if (!equal) kept.push_back(width);
  }
  n.hidden = std::move(kept);
  return n;
}

NetLimits limits_of(const MlpSpec& n) {
  return {.tp = {},
          .kv_heads = 1,
          .tokens = 1,
          .inner_parts = n.blocks() - 1,
          .no_tp = "an mlp's layers are too small to cut",
          .no_cp = "an mlp's sample has no tokens to cut",
          .no_sequence = "an mlp's sample has no tokens to cut"};
}

}  // namespace isobar::nets
