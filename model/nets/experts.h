// A mixture of experts in a transformer block (Shazeer 2017): a router sends each token to its `top` experts
// with the largest logits, and sums their results. No token is dropped: the copies of all tokens, sorted by
// expert, are the rows of grouped products.
//
//   Experts experts(e, at, "block03/mlp", "blocks.3.mlp", shape, width);
//   experts.forward("/forward", h, y, keep, true);     // h, y [full rows, width] act
//   experts.backward(dy, h, part, dh);                 // dh is written
//
// Tensor parallelism cuts each expert's hidden width, so that y and dh are partial sums, as an MLP's. Weights
// of tokens are applied before the second product; what they get back is thus partial too, and so is the
// router's gradient. The losses of the router are counted on the first rank.
//
// The balance loss is a sample's (DeepSeek-V2's): sum over experts of f_e P_e, with f_e the expert's share of
// copies times the number of experts, and P_e its mean probability. It does not depend on the layout.
#pragma once
#include <string>

#include "model/nets/block_shape.h"
#include "model/nets/layers.h"

namespace isobar {

class Declare;

class Experts {
 public:
  /// `path`: prefix of its ops; `name`: of its parameters.
  Experts(Emission& e, const Sharding& at, std::string path, std::string name, const ExpertsShape& shape,
          int64_t width);
  void declare(Declare& d);

  /// Without `result` only what backward needs.
  void forward(const std::string& pass, const View& h, const View& y, bool keep, bool result);
  /// `own`: this rank's part of h, for weight gradients that are postponed.
  void backward(const View& dy, const View& h, const View& own, const View& dh);

 private:
  RouteAttrs attrs() const;
  void route(const std::string& pass, const View& h, bool keep);
  void metrics(const std::string& pass) const;
  View copies(const std::string& path, const View& rows, const View& to) const;

  const std::string path_, name_;
  Emission& e_;
  Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const ExpertsShape shape_;
  const int64_t width_, copies_;
  Linear router_, up_, down_;  // up: gate and up of each expert
  // Routing (kernels.h: Routing); u [copies, 2 hidden/tp], g [copies, hidden/tp] act: before and after SwiGLU
  // with weights
  View logits_, order_, place_, chosen_, weights_, lse_, sums_, u_, g_;
};

}  // namespace isobar
