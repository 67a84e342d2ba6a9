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
/// Of bf16, 4,050 queries and keys, by bench/micro/attention_gpu. What has no row has not been measured.
inline constexpr MeasuredAttention kMeasuredAttention[] = {
    {32, false, false, 1.59},  {32, false, true, 1.58},  {32, true, false, 1.26},  {32, true, true, 2.95},
    {48, false, false, 1.43},  {48, false, true, 1.37},  {48, true, false, 1.15},  {48, true, true, 2.54},
    {64, false, false, 1.31},  {64, false, true, 1.09},  {64, true, false, 1.07},  {64, true, true, 2.03},
    {80, false, false, 1.34},  {80, false, true, 1.26},  {80, true, false, 1.22},  {80, true, true, 2.25},
    {96, false, false, 1.38},  {96, false, true, 1.13},  {96, true, false, 1.17},  {96, true, true, 1.99},
    {112, false, false, 1.30}, {112, false, true, 1.07}, {112, true, false, 1.10}, {112, true, true, 1.86},
    {128, false, false, 1.14}, {128, false, true, 1.03}, {128, true, false, 1.06}, {128, true, true, 1.80},
    {160, false, false, 1.31}, {160, false, true, 1.66}, {160, true, false, 1.22}, {160, true, true, 3.06},
    {192, false, false, 1.18}, {192, false, true, 1.46}, {192, true, false, 1.10}, {192, true, true, 2.74},
    {256, false, false, 1.16}, {256, true, false, 1.09}};
/// Queries and keys from which they hold; shorter sequences have not been measured.
constexpr int64_t kMeasuredTokens = 1024;

/// True if ours were measured to take no longer than cuDNN's.
bool hopper_is_faster(const Attention& a, bool backward);

}  // namespace isobar::cuda
