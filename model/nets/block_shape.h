// What makes one transformer block differ from another.
#pragma once
#include <cstdint>

#include "model/base/dtype.h"

namespace isobar {

struct BlockShape {
  int64_t width, heads, kv_heads, hidden;  // D; kv_heads < heads: grouped queries; of the MLP
  int64_t tokens;                          // of a sample
  bool rms_norm = false;                   // else LayerNorm, which has biases
  bool biases = true;                      // of linears
  bool swiglu = false;                     // else GELU
  bool tanh = false;                       // GELU by its approximation
  bool rotary = false;                     // positions turn queries and keys
  bool causal = false;
  double eps = 0, dropout = 0;  // of norms; of hidden states and attention weights
  DType stream = DType::f32;    // of the residual stream
  int64_t head_dim() const { return width / heads; }
};

}  // namespace isobar
