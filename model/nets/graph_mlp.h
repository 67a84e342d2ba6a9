// The MLP of graph networks: linears with SiLU between and a LayerNorm behind, whose result is added to a
// stream. Its first linear may read several operands side by side, each with a weight of its own: what nodes
// bring to an edge is then multiplied once a node and gathered, not once an edge. Tensor parallelism cuts its
// linears by twos, as it does a transformer's: the first by its output, the next by its input, and so on.
//
//   GraphMlp mlp(e, at, "step00/intra", "steps.0.intra", {{"edge", D}, {"sender", D}, {"receiver", D}},
//   shape); mlp.first(pass, {x}, rows, keep);            // u = sum of x_i W_i^T + b: all operands, or the
//   first alone mlp.rest(pass, rows, keep);                  // SiLU, linear, … mlp.norm(pass, rows,
//   residual, h, y, keep);  // h = LayerNorm(…), y = residual + h
#pragma once
#include <string>
#include <vector>

#include "model/nets/layers.h"

namespace isobar {

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
    std::string name;  // of its weight: NAME.name.weight
    int64_t width;
  };
  GraphMlp(Emission& e, const Sharding& at, std::string path, std::string name, std::vector<Operand> operands,
           const MlpShape& shape);
  GraphMlp(const GraphMlp&) = delete;
  GraphMlp& operator=(const GraphMlp&) = delete;

  void declare(Declare& d);

  // ---- forward ----
  /// What has been read of the operands so far, [rows, hidden()] act; more may be added to it.
  View first(const std::string& pass, const std::vector<View>& x, int64_t rows, bool keep);
  /// y = x W_i^T for an operand that is not in first()
  void product(const std::string& pass, size_t operand, const View& x, const View& y, int64_t rows) const;
  /// The last linear's result, [rows, out] act
  View rest(const std::string& pass, int64_t rows, bool keep);
  /// Either result may be absent: h act, y and residual f32.
  void norm(const std::string& pass, int64_t rows, const View& residual, const View& h, const View& y,
            bool keep);

  // ---- backward ----
  /// Gradient of the result, act -> that of first()'s, act. All parameters but the first weights' are done.
  /// `piece` of the rows ("/chunk2"), whose gradient goes to `du`; {}: all rows, and it has a place of its
  /// own
  View backward(const View& dh, int64_t rows, const std::string& piece = "", const View& du = {});
  /// dx [rows, width] (+)= du W_i, of the type of dx, and the gradient of W_i, du^T x; `add` needs f32
  void backward_operand(size_t operand, const View& x, const View& du, const View& dx, int64_t rows,
                        bool add) const;
  /// Of an operand whose gradient nobody reads
  void backward_weight(size_t operand, const View& x, const View& du, int64_t rows) const;
  /// Of an MLP whose result nobody reads
  void zero_gradients() const;

  View last_weight() const { return weights_.back().weight; }  // of the first linear: written last
  View first_bias() const { return biases_[0]; }               // written last of what is no weight
  int64_t hidden() const { return held(0); }                   // of first()'s result, as held here

 private:
  /// Of linear i, counted from the first: what tensor parallelism cuts of its weight [out, in] (-1: nothing)
  int cut_axis(size_t i) const;
  int64_t held(size_t i) const;  // this rank's width of what is between linears i and i + 1
  Attrs rows_of(int64_t rows, size_t i) const;
  std::string layer(size_t i) const { return path_ + "/linear" + std::to_string(i); }

  Emission& e_;
  Builder& b_;
  const Layers layers_;
  const int64_t tp_;
  const std::string path_, name_;
  const std::vector<Operand> operands_;
  const MlpShape shape_;
  std::vector<Linear> weights_;  // of the first linear, by operand
  std::vector<Linear> linears_;  // those behind it
  std::vector<View> biases_;     // of all
  View gamma_, beta_;
  // What forward saves: before and behind each SiLU, before the norm, and its statistics
  std::vector<View> u_, g_;
  View x_, mean_, rstd_;
};

/// A stream's value in the type of activations: itself, or a copy.
View as_act(Emission& e, const std::string& path, const std::string& name, const View& x, bool keep);

}  // namespace isobar
