#include "model/nets/graph/graph_mlp.h"

#include <cmath>

#include "model/nets/declare.h"

namespace isobar::nets {

GraphMlp::GraphMlp(Emission& e, const Sharding& at, std::string path, std::string name,
                   std::vector<Operand> operands, const MlpShape& shape)
    : e_(e),
      b_(e.b),
      layers_(e, at),
      tp_(at.tp),
      path_(std::move(path)),
      name_(std::move(name)),
      operands_(std::move(operands)),
      shape_(shape),
      weights_(operands_.size()),
      linears_(static_cast<size_t>(shape.layers)),
      biases_(static_cast<size_t>(shape.layers) + 1),
      u_(static_cast<size_t>(shape.layers)),
      g_(static_cast<size_t>(shape.layers)) {}

// Weights begin with variance 1 / fan-in, as Haiku's do; biases with zero.
void GraphMlp::declare(Declare& d) {
  const auto bound = [](int64_t terms) { return std::sqrt(3.0f / static_cast<float>(terms)); };
  int64_t terms = 0;
  for (const Operand& o : operands_) terms += o.width;
  const int64_t H = shape_.hidden;
  for (size_t i = 0; i < operands_.size(); ++i)
    d.linear(weights_[i], operands_[i].width, H,
             {{name_ + "." + operands_[i].name + ".weight",
               {H, operands_[i].width},
               plan::Init::uniform,
               bound(terms),
               cut_axis(0)}},
             {});
  const auto bias = [&](size_t i, int64_t width) {
    d.tensor(biases_[i], false,
             {{name_ + "." + std::to_string(i) + ".bias",
               {width},
               plan::Init::zero,
               0,
               cut_axis(i) == 0 ? 0 : -1}});
  };
  bias(0, H);
  for (size_t i = 0; i < linears_.size(); ++i) {
    const int64_t out = i + 1 < linears_.size() ? H : shape_.out;
    const std::string name = name_ + "." + std::to_string(i + 1);
    d.linear(linears_[i], H, out,
             {{name + ".weight", {out, H}, plan::Init::uniform, bound(H), cut_axis(i + 1)}}, {});
    bias(i + 1, out);
  }
  if (!shape_.norm) return;
  d.tensor(gamma_, false, {{name_ + ".norm.weight", {shape_.out}, plan::Init::one}});
  d.tensor(beta_, false, {{name_ + ".norm.bias", {shape_.out}, plan::Init::zero}});
}

// In pairs: one linear by its output, the next by its input. A last one without a partner is whole.
int GraphMlp::cut_axis(size_t i) const {
  if (i % 2 == 1) return 1;
  return i < linears_.size() ? 0 : -1;
}

int64_t GraphMlp::held(size_t i) const {
  return cut_axis(i) == 0 ? shape_.hidden / tp_ : shape_.hidden;
}

plan::ActivationAttrs GraphMlp::rows_of(int64_t rows, size_t i) const {
  return {.rows = rows, .cols = held(i), .accumulate = e_.accumulates(), .function = Activation::silu};
}

// ---- forward ----

plan::View GraphMlp::first(const std::string& pass, const std::vector<plan::View>& x, int64_t rows,
                           bool keep) {
  u_[0] = b_.saved_or_scratch(path_ + ".u0", e_.act, rows * held(0), keep);
  // Several products are summed in f32.
  const bool direct = e_.act == DType::f32 || x.size() == 1;
  const plan::View sum = direct ? u_[0] : b_.scratch(path_ + ".sum", DType::f32, u_[0].count);
  for (size_t i = 0; i < x.size(); ++i)
    layers_.linear_forward(path_ + "/" + operands_[i].name + pass, weights_[i], x[i], sum, rows,
                           i == 0 ? biases_[0] : plan::View{}, i > 0);
  if (!direct) b_.emit<plan::OpKind::cast>(path_ + "/sum" + pass, {.count = sum.count}, {sum}, {u_[0]});
  return u_[0];
}

void GraphMlp::product(const std::string& pass, size_t operand, const plan::View& x, const plan::View& y,
                       int64_t rows) const {
  layers_.linear_forward(path_ + "/" + operands_[operand].name + pass, weights_[operand], x, y, rows,
                         plan::View{});
}

plan::View GraphMlp::rest(const std::string& pass, int64_t rows, bool keep) {
  const bool keep_g = keep && e_.spec.policy.recompute != Recompute::selective;
  for (size_t i = 0; i < linears_.size(); ++i) {
    const bool last = i + 1 == linears_.size();
    g_[i] = b_.saved_or_scratch(path_ + ".g" + std::to_string(i), e_.act, rows * held(i), keep_g);
    b_.emit<plan::OpKind::activation>(layer(i) + "/silu" + pass, rows_of(rows, i), {u_[i]}, {g_[i]});
    plan::View& to = last ? x_ : u_[i + 1];
    to = b_.saved_or_scratch(path_ + (last ? ".x" : ".u" + std::to_string(i + 1)), e_.act,
                             rows * (last ? shape_.out : held(i + 1)), keep);
    const bool partial = cut_axis(i + 1) == 1;
    layers_.linear_forward(layer(i + 1) + pass, linears_[i], g_[i], to, rows,
                           partial ? layers_.once(biases_[i + 1]) : biases_[i + 1]);
    if (partial) layers_.result(layer(i + 1) + pass, to);
  }
  return x_;
}

void GraphMlp::norm(const std::string& pass, int64_t rows, const plan::View& residual, const plan::View& h,
                    const plan::View& y, bool keep) {
  mean_ = b_.saved_or_scratch(path_ + ".mean", DType::f32, rows, keep);
  rstd_ = b_.saved_or_scratch(path_ + ".rstd", DType::f32, rows, keep);
  b_.emit<plan::OpKind::norm_residual>(
      path_ + "/norm" + pass, {.rows = rows, .cols = shape_.out, .eps = static_cast<float>(shape_.eps)},
      {x_, residual, gamma_, beta_}, {h, y, mean_, rstd_});
}

// ---- backward ----

plan::View GraphMlp::backward(const plan::View& dh, int64_t rows, const std::string& piece,
                              const plan::View& first) {
  plan::View dy = dh;
  const plan::View bias = b_.grad(biases_.back());
  if (shape_.norm) {
    dy = e_.operand(path_ + ".dx", e_.act, rows * shape_.out);
    b_.emit<plan::OpKind::norm_residual_backward>(path_ + "/norm" + piece + "/backward",
                                                  {.rows = rows,
                                                   .cols = shape_.out,
                                                   .accumulate = e_.accumulates(),
                                                   .eps = static_cast<float>(shape_.eps)},
                                                  {x_, mean_, rstd_, gamma_, dh},
                                                  {dy, b_.grad(gamma_), b_.grad(beta_), bias});
  } else {
    b_.emit<plan::OpKind::column_sum>(layer(linears_.size()) + piece + "/backward_bias",
                                      {.rows = rows, .cols = shape_.out, .accumulate = e_.accumulates()},
                                      {dy}, {bias});
  }
  const bool again = e_.spec.policy.recompute == Recompute::selective;
  for (size_t i = linears_.size(); i-- > 0;) {
    const std::string n = std::to_string(i);
    if (again) {
      g_[i] = b_.scratch(path_ + ".g" + n, e_.act, rows * held(i));
      b_.emit<plan::OpKind::activation>(layer(i) + "/silu" + piece + "/recompute", rows_of(rows, i), {u_[i]},
                                        {g_[i]});
    }
    const plan::View dg = b_.scratch(path_ + ".dg" + n, e_.act, rows * held(i));
    layers_.linear_backward_input(layer(i + 1) + piece, linears_[i], dy, dg, rows);
    // The weight gradient runs under the reduction of the input gradient.
    if (cut_axis(i + 1) == 0) layers_.result(layer(i + 1) + piece + "/backward_input", dg);
    layers_.linear_backward_weight(layer(i + 1) + piece, linears_[i], g_[i], dy, rows);
    const plan::View du = i == 0 && first ? first
                          : e_.split      ? e_.operand(path_ + ".du" + n, e_.act, dg.count)
                                          : dg;
    b_.emit<plan::OpKind::activation_backward>(layer(i) + "/silu" + piece + "/backward", rows_of(rows, i),
                                               {u_[i], dg}, {du, b_.grad(biases_[i])});
    dy = du;
  }
  return dy;
}

// If the first linear is cut, each rank's result is a partial sum, so dx's old value is added after the
// reduction, under which the weight gradient runs.
void GraphMlp::backward_operand(size_t operand, const plan::View& x, const plan::View& du,
                                const plan::View& dx, int64_t rows, bool add) const {
  const Linear& l = weights_[operand];
  const std::string path = path_ + "/" + operands_[operand].name;
  const bool sums = tp_ > 1 && cut_axis(0) == 0, apart = sums && add;
  const plan::View part = apart ? b_.scratch(path + ".dx", e_.act, rows * l.in) : dx;
  layers_.linear_backward_input(path, l, du, part, rows, add && !apart);
  if (sums) layers_.result(path + "/backward_input", part);
  backward_weight(operand, x, du, rows);
  if (apart)
    b_.emit<plan::OpKind::residual_add>(path + "/backward_input/add", {.rows = 1, .cols = part.count},
                                        {dx, part}, {dx});
}

void GraphMlp::backward_weight(size_t operand, const plan::View& x, const plan::View& du,
                               int64_t rows) const {
  layers_.linear_backward_weight(path_ + "/" + operands_[operand].name, weights_[operand], x, du, rows);
}

void GraphMlp::zero_gradients() const {
  if (e_.accumulates()) return;
  const auto zero = [&](const std::string& what, const plan::View& v) {
    if (v)
      b_.emit<plan::OpKind::zero>(path_ + "/" + what + "/backward_zero", {.count = v.count}, {},
                                  {b_.grad(v)});
  };
  zero("norm.weight", gamma_);
  zero("norm.bias", beta_);
  for (size_t i = biases_.size(); i-- > 0;) zero("bias" + std::to_string(i), biases_[i]);
  for (size_t i = linears_.size(); i-- > 0;)
    layers_.zero_gradients(path_ + "/linear" + std::to_string(i + 1), linears_[i]);
  for (size_t i = 0; i < weights_.size(); ++i)
    layers_.zero_gradients(path_ + "/" + operands_[i].name, weights_[i]);
}

plan::View as_act(Emission& e, const std::string& path, const std::string& name, const plan::View& x,
                  bool keep) {
  if (e.act == DType::f32) return x;
  const plan::View y = e.b.saved_or_scratch(name, e.act, x.count, keep);
  e.b.emit<plan::OpKind::cast>(path, {.count = x.count}, {x}, {y});
  return y;
}

}  // namespace isobar::nets
