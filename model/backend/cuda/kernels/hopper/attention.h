// Attention on Hopper's own instructions (kernels/hopper/instructions.cuh), for bf16 and f16. Heads of 32 to
// 256 columns (backward 192), a multiple of 16; rows of 16 bytes; no summand to scores.
#pragma once
#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

/// True if attention_hopper() takes the shape.
bool hopper_takes_forward(const Attention& a);
/// o and lse as attention_mma(); needs a GPU of compute capability 9.0
void attention_hopper(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                      cudaStream_t stream);
/// True if attention_hopper_backward() takes the shape. Its sums of dq have no fixed order.
bool hopper_takes_backward(const Attention& a);
/// Bytes of its workspace: dq in f32, and lse and rowsum(dO * O) of each query, queries in whole tiles
int64_t hopper_backward_workspace(const Attention& a);
/// dq, dk and dv as attention_mma_backward(); needs a GPU of compute capability 9.0
void attention_hopper_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                               const float* lse, const void* d_o, void* dq, void* dk, void* dv,
                               float* workspace, cudaStream_t stream);

}  // namespace isobar::cuda
