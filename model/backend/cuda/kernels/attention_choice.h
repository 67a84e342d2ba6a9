// Which kernels run an attention on Hopper, where both take it: ours (hopper/attention.h) or cuDNN's, by
// times measured on an H200.
//
//   hopper_is_faster(a, /*backward=*/true)
#pragma once
#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

struct MeasuredAttention {
  int64_t d;
  bool causal, backward;
  double times;  // cuDNN's time over ours
};
/// For bf16. What has no row has not been measured, or was slower.
inline constexpr MeasuredAttention kMeasuredAttention[] = {
    {48, false, false, 1.05}, {192, false, false, 1.04}, {48, false, true, 1.11}, {192, false, true, 1.13}};
/// Queries and keys from which they hold; shorter sequences have not been measured.
constexpr int64_t kMeasuredTokens = 1024;

/// True if ours were measured to take no longer than cuDNN's.
bool hopper_is_faster(const Attention& a, bool backward);

}  // namespace isobar::cuda
