// Attention inside the windows of a grid, with its projections: rows are gathered into windows before the
// products and put back after them (Liu 2021).
//
//   Windows windows(b, "windows0", {.grid = {1, 45, 90}, .window = {1, 6, 12}}, batch);
//   WindowAttention attention(e, at, "block03", "encoder.1.blocks.0", windows, {.width = 192, .heads = 6});
//   attention.forward("/forward", h, y, keep);        // h, y [rows of the grid, width] act
//   const View dh = attention.backward(dy, {});       // then backward_weight()
//
// Tensor parallelism cuts heads. Context parallelism computes the windows of this rank's band; rows that two
// bands share are exchanged under the work on the others.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/nets/layers.h"
#include "model/nets/windows/relative_bias.h"
#include "model/nets/windows/rows.h"
#include "model/nets/windows/windows.h"

namespace isobar::nets {

class Declare;

/// A grid's windows in the order of a plan's ops. Windows that a rank shares with others come last, so that
/// their rows are exchanged under the work on its own.
struct Windows {
  Windows(plan::Builder& b, const std::string& name, const WindowGrid& of, int64_t batch);
  /// The windows of one rank of `group`
  Windows(plan::Builder& b, const std::string& name, const WindowGrid& of, int64_t batch, const Bands& bands,
          int64_t rank, int group);
  std::vector<WindowRun> runs;
  RowOrder order;
  const Sizes3 window;  // at most the grid

  // Constants of runs with equal sides, for their relative position bias (relative_bias.h)
  plan::View distances(size_t run);  // [keys, queries] i32
  std::pair<plan::View, plan::View> pairs_by_distance(
      size_t run);  // offsets [distances + 1], order [keys * queries]

 private:
  struct Pairs {
    plan::View distances, offsets, order;
  };
  Pairs& pairs_of(size_t run);
  plan::View constant(plan::View& made, const std::string& what, int64_t count, const RowOrder::Make& make);
  plan::Builder& b_;
  const std::string name_;
  std::vector<Pairs> pairs_;  // by run
};

class WindowAttention {
 public:
  struct Shape {
    int64_t width, heads;
    bool bias = false;  // relative position bias
  };
  /// `path`: of the part; `name`: prefix of its parameters' names, which go on with ".attn."
  WindowAttention(Emission& e, const Sharding& at, std::string path, std::string name, Windows& windows,
                  const Shape& shape);
  void declare(Declare& d);

  /// h -> y, both [rows of the grid, width] act
  void forward(const std::string& pass, const plan::View& h, const plan::View& y, bool keep);
  /// dy, the gradient of y -> that of h, act; or added to `onto` (f32), which needs f32 activations.
  plan::View backward(const plan::View& dy, const plan::View& onto);
  void backward_weight();  // of the projections to q, k and v, after backward()

  plan::View weight() const { return qkv_.weight; }      // its gradient is written last
  plan::View qkv_bias() const { return qkv_.bias; }      // likewise, among parameters that are no weights
  plan::View result_bias() const { return proj_.bias; }  // its gradient is summed by the norm that reads y

 private:
  struct Share {
    std::string name;   // "": the only one
    int64_t row, rows;  // of windows
    bool exchanged;
  };
  std::vector<Share> shares() const;
  std::vector<Share> shares_exchanged_first() const;
  void hold(bool keep);
  void attend(const std::string& pass, const Share& share);
  void attend_backward(const Share& share, const plan::View& d_o, const plan::View& dqkv);
  template <class F>
  void each_run(const Share& share, F&& f) const;  // (attrs, run, first row of q, o and lse)
  std::string core(size_t run, const Share& share) const;
  std::vector<plan::View> operands(const plan::View& qkv, size_t run, int64_t row) const;
  plan::View part(const plan::View& qkv, int which, int64_t row, int64_t rows) const;

  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const std::string path_, name_;
  Windows& windows_;
  const Shape s_;
  const int64_t width_;   // on this rank
  const bool selective_;  // attention proper is recomputed
  std::optional<RelativeBias> bias_;
  Linear qkv_, proj_;
  plan::View windowed_, projections_, o_, lse_, dqkv_;
};

}  // namespace isobar::nets
