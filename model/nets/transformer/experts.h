// A mixture of experts in a transformer block (Shazeer 2017): a router sends each token to its `top` experts
// with the largest logits, and sums their results. The copies of all tokens, sorted by expert, are the rows
// of grouped products.
//
//   Experts experts(e, at, "block03/mlp", "blocks.3.mlp", shape, width);
//   experts.dispatch("/forward", h, keep);              // h, y [full rows, width] act
//   experts.forward("/forward", y, keep, true);
//   experts.dispatch_gradient(dy);
//   experts.backward(h, part, dh);                      // dh is written
//
// Ops emitted between dispatch and the rest run while copies are on their way.
//
// Tensor parallelism cuts each expert's hidden width, so that y and dh are partial sums, as an MLP's. Weights
// of tokens are applied before the second product; what they get back is thus partial too, and so is the
// router's gradient. The losses of the router are counted on the first rank.
//
// The balance loss is a sample's (DeepSeek-V2's): sum over experts of f_e P_e, with f_e the expert's share of
// copies times the number of experts, and P_e its mean probability. It does not depend on the layout.
//
// Expert parallelism (Lepikhin 2020) divides the experts among neighbouring ranks of data and context
// parallelism. Ranks tell one another how many copies each expert gets, send them there with their weights,
// and get the results back; backward likewise. A rank has room for all copies that could come.
//
// With a capacity (Lepikhin 2020) an expert takes the first tokens of each sample alone, by their place in
// it, so that it does not depend on the layout; the results of the others count as zero.
#pragma once
#include <string>

#include "model/nets/layers.h"
#include "model/nets/transformer/block_shape.h"

namespace isobar::nets {

class Declare;

class Experts {
 public:
  /// `path`: prefix of its ops; `name`: of its parameters; `number`: among the net's.
  Experts(Emission& e, const Sharding& at, std::string path, std::string name, const ExpertsShape& shape,
          int64_t width, int64_t number);
  void declare(Declare& d);

  void dispatch(const std::string& pass, const plan::View& h, bool keep);
  /// Without `result` only what backward needs.
  void forward(const std::string& pass, const plan::View& y, bool keep, bool result);
  void dispatch_gradient(const plan::View& dy);
  /// `own`: this rank's part of h, for weight gradients that are postponed.
  void backward(const plan::View& h, const plan::View& own, const plan::View& dh);
  /// Moves biases by the step's loads, after those are summed over all ranks.
  void shift_bias();

 private:
  bool divided() const { return at_.ep > 1; }
  bool limited() const { return shape_.capacity > 0; }
  /// Its last says how many rows there are
  plan::View rows() const { return divided() || limited() ? up_.offsets : plan::View{}; }
  plan::View taken() const { return limited() ? own_offsets_ : plan::View{}; }
  plan::RouteAttrs attrs() const;
  plan::View counts_of_ranks(const std::string& pass, const plan::View& sums) const;
  void share_offsets(const std::string& pass, const plan::View& all, bool keep);
  plan::View received(const plan::View& room) const;
  int64_t expected_rows() const;  // that are received
  plan::View held(const char* what, DType t, int64_t cols, bool keep) const;
  void send(const std::string& path, const plan::View& from, const plan::View& to, bool back) const;
  plan::View to_experts(const std::string& path, const std::string& name, const plan::View& rows,
                        const plan::View& to) const;
  plan::View to_tokens(const std::string& path, const std::string& name, const plan::View& rows) const;
  void route(const std::string& pass, const plan::View& h, bool keep);
  void metrics(const std::string& pass) const;
  plan::View load() const;
  plan::View copies(const std::string& path, const plan::View& rows, const plan::View& to) const;

  const std::string path_, name_;
  Emission& e_;
  plan::Builder& b_;
  const Sharding& at_;
  const Layers layers_;
  const ExpertsShape shape_;
  // copies_: of this rank's tokens, and the expected ones of its experts' rows; room_: most of those
  const int64_t width_, copies_, room_, number_;
  const double busiest_;       // rows of the busiest rank over copies_, if net.expert_imbalance says so
  plan::View bias_;            // [experts] f32, of sigmoids; no gradient trains it (DeepSeek-V3, 2024)
  Linear router_, up_, down_;  // up: gate and up of each expert
  std::vector<plan::Param> up_params_,
      down_params_;  // of all experts, since parts are declared several times
  // Routing (kernels.h: Routing); u [copies, 2 hidden/tp], g [copies, hidden/tp] act: before and after SwiGLU
  // with weights; x_ [copies, width] act, scale_ [copies]: rows and weights that divided experts have
  // received
  plan::View logits_, order_, place_, chosen_, weights_, lse_, sums_, u_, g_, x_, scale_, do_;
  plan::View own_offsets_;  // [experts + 1] i32: of this rank's copies by expert
  plan::View offsets_;      // [ep, experts + 1] i32: of each rank's; absent: not divided
};

}  // namespace isobar::nets
