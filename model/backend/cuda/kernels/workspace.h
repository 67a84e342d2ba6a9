// Scratch of an op's kernels: a pure function of the op, so that the arena can be predicted without a GPU.
// Kernels use the same numbers of partial sums.
#pragma once
#include <algorithm>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/base/system/host_device.h"
#include "model/plan/plan.h"

namespace isobar {

/// `capability`: the device's, major (8: A100, 9: H100, 10: B200); cuDNN's need depends on it, and is larger
/// for sums in a fixed order (`deterministic`).
plan::Workspace cuda_workspace(int capability = 9, bool deterministic = false,
                               AttentionChoice attention = AttentionChoice::automatic);

namespace cuda {

/// Alignment of every buffer on the device: cudaMalloc's, and cuBLASLt's requirement for workspaces.
constexpr int64_t kDeviceAlign = 256;

constexpr int64_t kGemmWorkspace = int64_t{32} << 20;  // cuBLAS's own default on Hopper

/// Blocks of residual_norm_backward, each with three sums a column.
inline int norm_partials(int64_t rows) {
  return static_cast<int>(std::clamp<int64_t>((rows + 3) / 4, 1, 384));
}
/// Row blocks of activation_backward and column_sum, each with one sum a column.
inline int column_partials(int64_t rows, int64_t cols) {
  const int64_t tiles = (cols + 255) / 256;
  return static_cast<int>(std::clamp<int64_t>(1056 / tiles, 1, std::max<int64_t>(1, (rows + 7) / 8)));
}
/// Blocks of squared_sum, each with one sum.
inline int squared_sum_partials(int64_t n) {
  return static_cast<int>(std::clamp<int64_t>((n + 8191) / 8192, 1, 1056));
}
/// Sums a channel of each block of loss_sums.
ISOBAR_HOST_DEVICE constexpr int loss_columns(bool masked) {
  return masked ? 5 : 3;
}
/// Blocks a sample of loss_sums.
inline int loss_partials(int64_t batch, int64_t tokens) {
  return static_cast<int>(
      std::clamp<int64_t>(528 / std::max<int64_t>(1, batch), 1, std::max<int64_t>(1, tokens)));
}
Attention attention_of(const plan::AttentionAttrs& a, DType act, bool deterministic);

}  // namespace cuda
}  // namespace isobar
