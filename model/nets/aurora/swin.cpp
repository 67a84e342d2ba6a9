#include "model/nets/aurora/swin.h"

#include <string>

#include "model/nets/aurora/perceiver.h"
#include "model/nets/declare.h"
#include "model/nets/graph/graph_mlp.h"
#include "model/nets/net.h"
#include "model/nets/windows/attention.h"

namespace isobar::nets::aurora {
namespace {

/// LayerNorm of a result, modulated and added to a stream.
class AdaptiveNorm {
 public:
  AdaptiveNorm(Emission& e, const Sharding& at, std::string path, std::string name, int64_t width,
               int64_t condition, double eps)
      : e_(e),
        b_(e.b),
        at_(at),
        layers_(e, at),
        path_(std::move(path)),
        name_(std::move(name)),
        D_(width),
        condition_(condition),
        eps_(static_cast<float>(eps)) {}
  /// Stochastic depth (Huang 2016), in training only: drops a sample's result with probability `rate`, else
  /// scales it by 1/(1 - rate). `stream`: of random numbers, two a part.
  void drops(double rate, int64_t stream) {
    drops_ = true, rate_ = static_cast<float>(rate), stream_ = stream;
  }
  // Initialised to zero, so that a block adds nothing at first.
  void declare(Declare& d) {
    const std::string name = name_ + ".ln_modulation.1";
    d.linear(modulation_, condition_, 2 * D_, {{name + ".weight", {2 * D_, condition_}, plan::Init::zero}},
             {{name + ".bias", {2 * D_}, plan::Init::zero}});
  }
  /// x [rows, width] act -> y = residual + AdaLN(x), both f32; s [condition] act
  void forward(const std::string& pass, const plan::View& x, const plan::View& residual, const plan::View& y,
               const plan::View& s, int64_t rows, bool keep) {
    x_ = x, s_ = s;
    shift_scale_ = b_.saved_or_scratch(path_ + ".modulation", DType::f32, 2 * D_, keep);
    layers_.linear_forward(path_ + "/modulation" + pass, modulation_, s, shift_scale_, 1, modulation_.bias);
    mean_ = b_.saved_or_scratch(path_ + ".mean", DType::f32, rows, keep);
    rstd_ = b_.saved_or_scratch(path_ + ".rstd", DType::f32, rows, keep);
    const plan::View alone = drops_ ? b_.scratch(path_ + ".result", DType::f32, rows * D_) : y;
    b_.emit<plan::OpKind::norm_residual>(
        path_ + pass, {.rows = rows, .cols = D_, .eps = eps_},
        {x, drops_ ? plan::View{} : residual, shift_scale_.slice(D_, D_), shift_scale_.slice(0, D_)},
        {plan::View{}, alone, mean_, rstd_});
    if (!drops_) return;
    drop(plan::OpKind::dropout, path_ + "/drop_path" + pass, alone, rows);
    b_.emit<plan::OpKind::residual_add>(path_ + "/add" + pass, {.rows = rows, .cols = D_}, {residual, alone},
                                        {y});
  }
  /// of_sum: y's gradient, dx [rows, width] act; ds f32 is written or added to; dbias: of the linear before
  // The norm's op adds to the gradients of gain and shift exactly if it adds to the preceding bias's, so they
  // are zeroed in that case.
  void backward(const plan::View& of_sum, const plan::View& dx, const plan::View& ds, bool add,
                const plan::View& dbias, int64_t rows) {
    plan::View dh = of_sum;
    if (drops_) {
      dh = b_.scratch(path_ + ".dresult", e_.act, of_sum.count);
      b_.emit<plan::OpKind::copy>(path_ + "/drop_path/copy", {.run = dh.count}, {of_sum}, {dh});
      drop(plan::OpKind::dropout_backward, path_ + "/drop_path/backward", dh, rows);
    }
    plan::View dm = e_.operand(path_ + ".dmodulation", DType::f32, 2 * D_);
    if (e_.accumulates())
      b_.emit<plan::OpKind::zero>(path_ + "/modulation/backward_zero", {.count = dm.count}, {}, {dm});
    b_.emit<plan::OpKind::norm_residual_backward>(
        path_ + "/backward", {.rows = rows, .cols = D_, .accumulate = e_.accumulates(), .eps = eps_},
        {x_, mean_, rstd_, shift_scale_.slice(D_, D_), dh},
        {dx, dm.slice(D_, D_), dm.slice(0, D_), dbias ? b_.grad(dbias) : plan::View{}});
    if (e_.act != DType::f32) {
      const plan::View cast = e_.operand(path_ + ".dmodulation.act", e_.act, dm.count);
      b_.emit<plan::OpKind::cast>(path_ + "/modulation/backward_cast", {.count = dm.count}, {dm}, {cast});
      dm = cast;
    }
    b_.emit<plan::OpKind::column_sum>(path_ + "/modulation/backward_bias",
                                      {.rows = 1, .cols = dm.count, .accumulate = e_.accumulates()}, {dm},
                                      {b_.grad(modulation_.bias)});
    layers_.linear_backward_input(path_ + "/modulation", modulation_, dm, ds, 1, add);
    layers_.linear_backward_weight(path_ + "/modulation", modulation_, s_, dm, 1);
  }
  plan::View bias() const { return modulation_.bias; }
  plan::View weight() const { return modulation_.weight; }

 private:
  // Drop path is seeded by (step, global sample index, roll-out step), so results do not depend on the
  // layout.
  void drop(plan::OpKind kind, const std::string& path, const plan::View& x, int64_t rows) const {
    const auto results = 2 * static_cast<int64_t>(b_.plan.parts.size());
    const plan::DropoutAttrs a{.rows = at_.batch,
                               .cols = 1,
                               .period = e_.spec.layout.dp * at_.batch,
                               .row0 = at_.at.dp * at_.batch,
                               .rate = rate_,
                               .each = rows / at_.batch * D_,
                               .stream = stream_ + e_.roll.step * results,
                               .seed = e_.spec.train.seed};
    const plan::View scalars = b_.plan.scalars;
    if (kind == plan::OpKind::dropout)
      b_.emit(kind, path, a, {x, scalars}, {x, plan::View{}});
    else
      b_.emit(kind, path, a, {x, plan::View{}, scalars}, {x});
  }
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
  SwinBlock(int index, std::string path, std::string name, Emission& e, const Sharding& at, Windows& windows,
            const SwinBlockShape& shape)
      : NetPart(index, std::move(path)),
        name_(std::move(name)),
        e_(e),
        b_(e.b),
        at_(at),
        layers_(e, at),
        s_(shape),
        rows_(windows.order.outside),
        selective_(e.spec.policy.recompute == Recompute::selective),
        attention_(e, at, this->path(), name_, windows, {shape.width, shape.heads}),
        norm1_(e, at, this->path() + "/norm1", name_ + ".norm1", shape.width, shape.condition, shape.eps),
        norm2_(e, at, this->path() + "/norm2", name_ + ".norm2", shape.width, shape.condition, shape.eps) {
    if (!shape.drops) return;
    norm1_.drops(shape.drop_path, 2 * index);
    norm2_.drops(shape.drop_path, 2 * index + 1);
  }

  void declare(Declare& d) override {
    const int64_t D = s_.width;
    norm1_.declare(d);
    attention_.declare(d);
    norm2_.declare(d);
    d.linear(fc1_, name_ + ".mlp.fc1", D, s_.hidden, 0, true);
    d.linear(fc2_, name_ + ".mlp.fc2", s_.hidden, D, 1, true);
  }
  // Only a recomputation reads the stream again; the conditioning is one row, shared by all blocks of a
  // stage.
  plan::View receive_buffer(size_t in) override {
    const plan::InPart here(b_, index());
    if (in == kCondition) return b_.saved(path() + ".condition", DType::f32, s_.condition);
    return b_.saved_or_scratch(path() + ".x", DType::f32, rows_ * s_.width,
                               e_.spec.policy.recompute == Recompute::full);
  }
  std::vector<Flow> forward(const std::vector<Flow>& in, const Forward& how) override {
    if (!how.recompute) in_ = in;
    const std::string pass = how.pass(), mlp = path() + "/mlp";
    const bool keep = how.keep == Keep::all;
    const int64_t D = s_.width;
    const plan::View x = in[kX].x;
    condition_ = as_act(e_, path() + "/condition" + pass, path() + ".condition.act", in[kCondition].x, keep);

    const plan::View h = as_act(e_, path() + "/cast" + pass, path() + ".x.act", x, false);
    const plan::View back = b_.saved_or_scratch(path() + ".attn.back", e_.act, rows_ * D, keep);
    attention_.forward(pass, h, back, keep);
    const plan::View a =
        b_.saved_or_scratch(path() + ".a", DType::f32, rows_ * D, keep && e_.act == DType::f32);
    norm1_.forward(pass, back, x, a, condition_, rows_, keep);

    a_ = as_act(e_, mlp + "/cast" + pass, path() + ".a.act", a, keep);
    u_ = b_.saved_or_scratch(path() + ".u", e_.act, rows_ * fc1_.out, keep);
    layers_.linear_forward(mlp + "/fc1" + pass, fc1_, a_, u_, rows_, fc1_.bias);
    activate(pass, keep && !selective_);
    plan::View z = b_.saved_or_scratch(path() + ".mlp.y", e_.act, rows_ * D, keep);
    layers_.linear_forward(mlp + "/fc2" + pass, fc2_, g_, z, rows_, layers_.once(fc2_.bias));
    z = layers_.result(mlp + "/fc2" + pass, z);
    // A recomputation may not need the result, but it needs the norm's statistics.
    const plan::View out =
        how.recompute ? b_.scratch(path() + ".y", DType::f32, rows_ * D) : how.output_place(kX);
    norm2_.forward(pass, z, a, out, condition_, rows_, keep);
    if (s_.last) return {{.x = out}};
    return {{.x = out}, {.x = in[kCondition].x}};
  }
  void backward(const std::vector<Gradient>&, std::vector<Gradient>& in) override {
    const std::string mlp = path() + "/mlp";
    const int64_t D = s_.width;
    const plan::View dx = in[kX].dx, ds = in[kCondition].dx;

    const plan::View dz = e_.operand(path() + ".dz", e_.act, rows_ * D);
    norm2_.backward(as_act(e_, path() + "/norm2/backward_cast", path() + ".norm2.dh", dx, false), dz, ds,
                    !s_.last, fc2_.bias, rows_);
    // The product that reads the recomputed activation comes first, so that it is freed before the next
    // gradient is allocated.
    if (selective_) activate("/recompute", false);
    layers_.linear_backward_weight(mlp + "/fc2", fc2_, g_, dz, rows_);
    const plan::View du = e_.operand(path() + ".du", e_.act, rows_ * fc1_.out);
    layers_.linear_backward_input(mlp + "/fc2", fc2_, dz, du, rows_);
    b_.emit<plan::OpKind::activation_backward>(mlp + "/gelu/backward", rows_of(rows_, fc1_.out), {u_, du},
                                               {du, b_.grad(fc1_.bias)});
    if (at_.tp == 1) {
      layers_.linear_backward_input(mlp + "/fc1", fc1_, du, dx, rows_, true);
    } else {
      const plan::View dh = b_.scratch(path() + ".mlp.dh", e_.act, rows_ * D);
      layers_.linear_backward_input(mlp + "/fc1", fc1_, du, dh, rows_);
      added(mlp + "/fc1/backward_add", layers_.result(mlp + "/fc1/backward_input", dh), dx);
    }
    layers_.linear_backward_weight(mlp + "/fc1", fc1_, a_, du, rows_);

    const plan::View dback = b_.scratch(path() + ".dback", e_.act, rows_ * D);
    norm1_.backward(as_act(e_, path() + "/norm1/backward_cast", path() + ".norm1.dh", dx, false), dback, ds,
                    true, attention_.result_bias(), rows_);
    const bool direct = e_.act == DType::f32;
    const plan::View dh = attention_.backward(dback, direct ? dx : plan::View{});
    if (!direct) added(path() + "/attn/windows/backward_add", dh, dx);
    attention_.backward_weight();
  }
  std::vector<Flow> kept_inputs() const override { return in_; }
  int shares_gradient_with(size_t in) const override {
    return in == kX || !s_.last ? static_cast<int>(in) : -1;
  }
  plan::View last_gradient(bool weight) const override {
    return weight || !e_.split ? attention_.weight() : attention_.qkv_bias();
  }

  static constexpr size_t kX = 0, kCondition = 1;

 private:
  void activate(const std::string& pass, bool keep) {
    g_ = b_.saved_or_scratch(path() + ".g", e_.act, rows_ * fc1_.out, keep);
    b_.emit<plan::OpKind::activation>(path() + "/mlp/gelu" + pass, rows_of(rows_, fc1_.out), {u_}, {g_});
  }
  plan::ActivationAttrs rows_of(int64_t rows, int64_t cols) const {
    return {.rows = rows, .cols = cols, .accumulate = e_.accumulates()};
  }
  void added(const std::string& path, const plan::View& dh, const plan::View& dx) const {
    b_.emit<plan::OpKind::cast>(path, {.count = dx.count, .accumulate = true}, {dh}, {dx});
  }

  const std::string name_;
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const SwinBlockShape s_;
  const int64_t rows_;    // of the grid
  const bool selective_;  // attention proper and GELU are recomputed
  WindowAttention attention_;
  AdaptiveNorm norm1_, norm2_;
  Linear fc1_, fc2_;
  std::vector<Flow> in_;
  plan::View condition_, a_, u_, g_;
};

}  // namespace

std::string block_name(bool encoder, int64_t stage, int64_t of) {
  return std::string("backbone.") + (encoder ? "encoder" : "decoder") + "_layers." + std::to_string(stage) +
         ".blocks." + std::to_string(of);
}

std::unique_ptr<NetPart> swin_block(int index, std::string path, std::string name, Emission& e,
                                    const Sharding& at, Windows& windows, const SwinBlockShape& shape) {
  return std::make_unique<SwinBlock>(index, std::move(path), std::move(name), e, at, windows, shape);
}

}  // namespace isobar::nets::aurora
