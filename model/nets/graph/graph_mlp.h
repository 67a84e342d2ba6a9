// The MLP of graph networks: linears with SiLU between and a LayerNorm after them, whose result is added to a
// stream. Its first linear may read several operands, each with its own weight: nodes' operands are then
// multiplied once a node and gathered, not once an edge. Tensor parallelism cuts linears in pairs, as in a
// transformer: the first by its output, the next by its input.
//
//   GraphMlp mlp(e, at, "step00/intra", "steps.0.intra", {{"edge", D}, {"sender", D}}, shape);
//   mlp.first(pass, {x}, rows, keep);            // u = sum of x_i W_i^T + b: the first operand or all
//   mlp.rest(pass, rows, keep);                  // SiLU, linear, …
//   mlp.norm(pass, rows, residual, h, y, keep);  // h = LayerNorm(…), y = residual + h
#pragma once
#include <string>
#include <vector>

#include "model/nets/layers.h"

namespace isobar::nets {

class Declare;

struct MlpShape {
  int64_t hidden, layers;  // hidden layers
  int64_t out;
  double eps;
  bool norm = true;
};

class GraphMlp {
 public:
  struct Operand {
    std::string name;  // its weight is NAME.name.weight
    int64_t width;
  };
  GraphMlp(Emission& e, const Sharding& at, std::string path, std::string name, std::vector<Operand> operands,
           const MlpShape& shape);
  GraphMlp(const GraphMlp&) = delete;
  GraphMlp& operator=(const GraphMlp&) = delete;

  void declare(Declare& d);

  // ---- forward ----
  /// The sum over these operands, [rows, hidden()] act; more may be added to it.
  plan::View first(const std::string& pass, const std::vector<plan::View>& x, int64_t rows, bool keep);
  /// y = x W_i^T for an operand that is not in first()
  void product(const std::string& pass, size_t operand, const plan::View& x, const plan::View& y,
               int64_t rows) const;
  /// The last linear's result, [rows, out] act
  plan::View rest(const std::string& pass, int64_t rows, bool keep);
  /// Either result may be absent: h act, y and residual f32.
  void norm(const std::string& pass, int64_t rows, const plan::View& residual, const plan::View& h,
            const plan::View& y, bool keep);
  /// All three: y = residual + h
  void forward(const std::string& pass, const std::vector<plan::View>& x, int64_t rows,
               const plan::View& residual, const plan::View& y, bool keep) {
    first(pass, x, rows, keep);
    rest(pass, rows, keep);
    norm(pass, rows, residual, {}, y, keep);
  }

  // ---- backward ----
  /// Gradient of the result, act -> that of first()'s result, act; completes all parameters but the first
  /// weights. `piece`: of the rows ("/chunk2"), with `du` for its gradient; {}: all rows, in an own buffer
  plan::View backward(const plan::View& dh, int64_t rows, const std::string& piece = "",
                      const plan::View& du = {});
  /// dx [rows, width] (+)= du W_i, in dx's type, and W_i's gradient, du^T x; `add` needs f32
  void backward_operand(size_t operand, const plan::View& x, const plan::View& du, const plan::View& dx,
                        int64_t rows, bool add) const;
  /// For an operand whose gradient is not needed
  void backward_weight(size_t operand, const plan::View& x, const plan::View& du, int64_t rows) const;
  /// For an MLP whose result is unused
  void zero_gradients() const;

  /// The parameter whose gradient is written last: of the first linear its weight, or with postponed weights
  /// its bias, unless `weight`.
  plan::View last_gradient(bool weight) const {
    return weight || !e_.split ? weights_.back().weight : biases_[0];
  }
  int64_t hidden() const { return held(0); }  // this rank's width of first()'s result

 private:
  /// Axis of linear i's weight [out, in] that tensor parallelism cuts (-1: none)
  int cut_axis(size_t i) const;
  int64_t held(size_t i) const;  // this rank's width between linears i and i + 1
  plan::ActivationAttrs rows_of(int64_t rows, size_t i) const;
  std::string layer(size_t i) const { return path_ + "/linear" + std::to_string(i); }

  Emission& e_;
  plan::Builder& b_;
  const Layers layers_;
  const int64_t tp_;
  const std::string path_, name_;
  const std::vector<Operand> operands_;
  const MlpShape shape_;
  std::vector<Linear> weights_;     // of the first linear, by operand
  std::vector<Linear> linears_;     // the later linears
  std::vector<plan::View> biases_;  // of all linears
  plan::View gamma_, beta_;
  // Saved by forward: before and after each SiLU, before the norm, and its statistics
  std::vector<plan::View> u_, g_;
  plan::View x_, mean_, rstd_;
};

/// A stream's value in the type of activations: itself, or a copy.
plan::View as_act(Emission& e, const std::string& path, const std::string& name, const plan::View& x,
                  bool keep);

}  // namespace isobar::nets
