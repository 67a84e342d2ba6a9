// Attention of a handful of tokens, of any type, without workspace: Perceivers attend with 13 queries to 3
// keys, or 3 to 13, in each of 64,800 columns of the atmosphere. Operands as in kernels.h.
#pragma once
#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

/// The kernels' limits: queries and keys, pairs of them, columns of a head.
constexpr int64_t kFewTokens = 16, kFewPairs = 64, kFewColumns = 64;
/// f32 operands are rounded where `tf32`.
void attention_few(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                   cudaStream_t stream);
void attention_few_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                            const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                            cudaStream_t stream);

}  // namespace isobar::cuda
