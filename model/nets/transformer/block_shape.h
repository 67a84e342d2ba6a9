// The differences between transformer blocks.
#pragma once
#include <cstdint>
#include <string>

#include "model/base/dtype.h"
#include "model/base/net_specs/parts/latent.h"
#include "model/base/spec/settings.h"
#include "model/plan/ops/op.h"

namespace isobar::nets {

struct ExpertsShape {
  int64_t experts = 0, top = 0, hidden = 0;  // top: of a token; hidden: of one
  bool normalised = true;                    // a token's weights sum to 1
  double balance = 0, z = 0;                 // factors of the router's losses
  int64_t blocks = 0, first = 0;             // of the net with experts; the first of them among its parts
  float factor = 1;                          // of a token's weights
  bool sigmoid = false;                      // scores, with biases for the choice
  int64_t groups = 1, top_groups = 1;        // of experts; those that a token chooses from
  double bias_rate = 0;                      // of those biases
  int64_t capacity = 0;                      // tokens of a sample that an expert takes; 0: all
  double imbalance = 0;                      // ExpertsSpec::expert_imbalance
};

struct BlockShape {
  int64_t width, heads, kv_heads;  // D; kv_heads < heads: grouped queries
  int64_t head_dim;
  int64_t hidden;                // of the MLP, which all tokens pass; 0: there is none
  int64_t tokens;                // of a sample
  bool rms_norm = false;         // else LayerNorm, which has biases
  bool biases = true;            // of linears
  bool qkv_biases = true;        // of those that give queries, keys and values
  bool swiglu = false;           // else `activation`
  ExpertsShape of_experts = {};  // beside the MLP
  Activation activation = Activation::gelu;
  plan::View rotary = {};  // angles of this rank's tokens (rotary.h); absent: no rotary position embedding
  bool qk_norm = false;    // RMSNorm of each head of queries and keys
  bool causal = false;
  int64_t window = 0;           // causal: tokens that one attends to at most, the last ones; 0: all
  float score_growth = 1;       // of attention, beside 1/sqrt(head_dim)
  double eps = 0, dropout = 0;  // of norms; of hidden states and attention weights
  DType stream = DType::f32;    // of the residual stream
  LatentSpec latent = {};       // of attention, if any; head_dim is then of queries and keys
  int64_t attended() const { return heads * head_dim; }  // width of attention's result
  int64_t result_width() const { return latent.any() ? heads * latent.v_head_dim : attended(); }
};

inline Activation activation_of(Gelu gelu) {
  return gelu == Gelu::tanh ? Activation::gelu_tanh : Activation::gelu;
}

}  // namespace isobar::nets
