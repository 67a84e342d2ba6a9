// The scratch that an op's kernels take, as the plan is told it: a pure function of the op, so that the arena
// can be predicted where there is no GPU. The kernels take their numbers of partial sums from here, too.
#pragma once
#include <algorithm>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/base/host_device.h"
#include "model/plan/plan.h"

namespace isobar {

/// `capability`: the device's, major (8: A100, 9: H100, 10: B200); cuDNN's need differs, and with sums in a
/// fixed order (`deterministic`) is larger.
Workspace cuda_workspace(int capability = 9, bool deterministic = false);

namespace cuda {

/// Bytes that every buffer on the device begins on: what cudaMalloc gives, and what cuBLASLt demands of its
/// workspace.
constexpr int64_t kDeviceAlign = 256;

constexpr int64_t kGemmWorkspace = int64_t{32} << 20;  // what cuBLAS takes for itself on Hopper

/// Blocks of residual_norm_backward, each of which leaves three sums a column.
inline int norm_partials(int64_t rows) {
  return static_cast<int>(std::clamp<int64_t>((rows + 3) / 4, 1, 384));
}
/// Row blocks of activation_backward and column_sum, each of which leaves one sum a column.
inline int column_partials(int64_t rows, int64_t cols) {
  const int64_t tiles = (cols + 255) / 256;
  return static_cast<int>(std::clamp<int64_t>(1056 / tiles, 1, std::max<int64_t>(1, (rows + 7) / 8)));
}
/// Blocks of squared_sum, each of which leaves one sum.
inline int squared_sum_partials(int64_t n) {
  return static_cast<int>(std::clamp<int64_t>((n + 8191) / 8192, 1, 1056));
}
/// Sums a channel that a block of loss_sums leaves.
ISOBAR_HOST_DEVICE constexpr int loss_columns(bool masked) {
  return masked ? 5 : 3;
}
/// Blocks a sample of loss_sums.
inline int loss_partials(int64_t batch, int64_t tokens) {
  return static_cast<int>(
      std::clamp<int64_t>(528 / std::max<int64_t>(1, batch), 1, std::max<int64_t>(1, tokens)));
}
Attention attention_of(const Attrs& a, DType act, bool deterministic);
/// Tokens of a sample that an image op's rows are cut from.
int64_t tokens_of(const Attrs& a);

}  // namespace cuda
}  // namespace isobar
