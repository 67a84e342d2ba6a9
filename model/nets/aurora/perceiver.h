// Cross-attention of a few queries to the rows of each group, then an MLP, both normed before they are added
// (Perceiver's resampler as in Aurora: Jaegle 2021, Bodnar 2024). Aurora uses it to reduce 13 pressure levels
// to 3 latent ones at each patch, and back.
//
//   a   = LayerNorm(attention(latents Wq, context Wk, context Wv) Wo) + latents
//   y   = LayerNorm(MLP(a)) + a
//
// All groups share the latents: their product with Wq is computed once and repeated.
#pragma once
#include <string>

#include "model/nets/layers.h"

namespace isobar::nets {
class Declare;
}

namespace isobar::nets::aurora {

/// gamma, beta and the preceding linear's bias; tensors that the norm keeps for backward
struct ResultNorm {
  plan::View gamma, beta, x, mean, rstd;
};

class Perceiver {
 public:
  struct Shape {
    int64_t width, heads, hidden;
    int64_t groups, queries, keys;  // groups of a micro-batch; rows of each
    double eps;
  };
  Perceiver(Emission& e, const Sharding& at, std::string path, std::string name, const Shape& shape);
  Perceiver(const Perceiver&) = delete;
  Perceiver& operator=(const Perceiver&) = delete;
  void declare(Declare& d);

  /// latents [queries, width] f32, context [groups * keys, width] act -> y [groups * queries, width] f32
  void forward(const plan::View& latents, const plan::View& context, const plan::View& y);
  /// Overwrites dy (f32); writes dlatents f32 and dcontext act.
  void backward(const plan::View& dy, const plan::View& dlatents, const plan::View& dcontext);
  plan::View last_weight() const { return kv_.weight; }  // its gradient is written last

 private:
  plan::AttentionAttrs attention() const;
  // Selective recomputation repeats these
  void repeat_queries(const std::string& pass, bool keep);
  void attend(const std::string& pass, bool keep);
  void activate(const std::string& pass, bool keep);
  void repeated(const std::string& path, const plan::View& x, const plan::View& to) const;  // for every group
  plan::NormAttrs rows_of(int64_t cols) const;
  void norm_backward(const std::string& which, const ResultNorm& n, const plan::View& dy,
                     const plan::View& dx, const plan::View& dbias) const;

  Emission& e_;
  plan::Builder& b_;
  const Layers layers_;
  const std::string path_, name_;
  const Shape s_;
  const int64_t rows_;  // groups * queries
  Linear q_, kv_, out_, fc1_, fc2_;
  ResultNorm norm1_, norm2_;
  const bool selective_;
  plan::View latents_, context_, query_, queries_, keys_, o_, lse_, a_, u_, g_;
};

}  // namespace isobar::nets::aurora
