// Multi-head latent attention (DeepSeek-V2, 2024): from a token to the queries, keys and values of its heads.
//
//   LatentAttention latent(e, at, "block03", "blocks.3", shape);
//   View qkv = latent.forward("/forward", h, keep, true);       // h [full rows, width]
//   core.forward(…);                                            // as of usual heads, of nope + rope columns
//   View o = latent.values("/forward", core.o, scratch);        // [full rows, heads v]
//   latent.backward(dqkv, dh);   latent.backward_weight(h);
//
// One product makes a token's latents: those of queries, those of keys and values, and the rotary key. The
// first two are normalised, and two products cut by heads make the heads of them. Values are followed by
// zeros up to the width of queries, so that attention is the usual one.
//
// Tensor parallelism leaves the first product and the norms whole on every rank; what reaches them backward
// are partial sums (Declare: TensorUse::multiplied).
#pragma once
#include <string>

#include "model/nets/layers.h"
#include "model/nets/transformer/block_shape.h"

namespace isobar::nets {

class Declare;

class LatentAttention {
 public:
  /// `path`: the block's; `name`: prefix of the block's parameters.
  LatentAttention(Emission& e, const Sharding& at, std::string path, std::string name,
                  const BlockShape& shape);
  void declare(Declare& d);

  /// `keep_result`: backward reads it.
  plan::View forward(const std::string& pass, const plan::View& h, bool keep, bool keep_result);
  /// The values' columns of attention's result, in `to` [full rows, heads v] unless they are all.
  plan::View values(const std::string& pass, const plan::View& o, const plan::View& to) const;
  /// The gradient of attention's result from that of values()
  plan::View values_backward(const plan::View& d_values) const;
  /// dh is written: a partial sum under tensor parallelism.
  void backward(const plan::View& dqkv, const plan::View& dh);
  void backward_weight(const plan::View& h);
  const plan::View& first_weight() const { return down_.weight; }

 private:
  plan::View normed(const std::string& pass, Norm& n, const char* which, int64_t first, bool keep);
  plan::View columns(const plan::View& of, int64_t first, int64_t width) const;
  Rows rows_of(int64_t width) const { return {R_, 1, wide_, width}; }
  plan::LatentAttrs attrs() const;

  const std::string path_, name_;
  Emission& e_;
  plan::Builder& b_;
  const Layers layers_;
  const BlockShape shape_;
  const LatentSpec& n_;
  const int64_t R_, tokens_, heads_, wide_;  // heads: of this rank; wide: columns of all latents
  Linear down_, q_, kv_;
  Norm q_norm_, kv_norm_;
  plan::View c_, q_latent_, kv_latent_;  // [full rows, wide]; normalised
  plan::View dc_, dq_;
};

}  // namespace isobar::nets
