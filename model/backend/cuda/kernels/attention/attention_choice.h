// Which kernels run an attention on Hopper, where both take it: ours (hopper/attention.h) or cuDNN's, by
// times measured on an H200.
//
//   hopper_is_faster(a, /*backward=*/true)
//
// Workspaces that cuDNN itself names for attention backward in shipped configurations and tests, on A100,
// H100 and B200 (forward wants 256 bytes at most). A plan needs no device (libraries/attention_cudnn.h,
// DescribedGpu), so tests/cuda/cudnn_plans.cpp asks, writes cudnn_workspaces.inc, and holds it to the library
// that is here.
//
//   known_workspace(shape, 9)   // most bytes that any of kCudnnAsked wants on H100
//
// A sample adds the same bytes each, so a row holds for every batch.
#pragma once
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

/// Queries and keys that were measured; a length in between has the times of the one below it.
inline constexpr int64_t kMeasuredTokens[] = {1024, 4050};
struct MeasuredAttention {
  int64_t d;
  bool causal, backward;
  double times[std::size(kMeasuredTokens)];  // cuDNN's time over ours
};
/// bf16, by bench/micro/attention_gpu. What has no row has not been measured.
inline constexpr MeasuredAttention kMeasuredAttention[] = {
    {32, false, false, {1.18, 1.46}},  {32, false, true, {1.23, 1.59}},   {32, true, false, {1.01, 1.28}},
    {32, true, true, {1.83, 3.09}},    {48, false, false, {1.02, 1.31}},  {48, false, true, {1.08, 1.39}},
    {48, true, false, {0.89, 1.17}},   {48, true, true, {1.59, 2.65}},    {64, false, false, {0.95, 1.20}},
    {64, false, true, {0.96, 1.10}},   {64, true, false, {0.84, 1.08}},   {64, true, true, {1.40, 2.15}},
    {80, false, false, {1.07, 1.34}},  {80, false, true, {1.07, 1.27}},   {80, true, false, {1.11, 1.22}},
    {80, true, true, {1.26, 2.19}},    {96, false, false, {1.01, 1.36}},  {96, false, true, {0.98, 1.12}},
    {96, true, false, {1.05, 1.16}},   {96, true, true, {1.15, 1.94}},    {112, false, false, {0.94, 1.30}},
    {112, false, true, {0.98, 1.07}},  {112, true, false, {0.99, 1.10}},  {112, true, true, {1.13, 1.86}},
    {128, false, false, {0.90, 1.21}}, {128, false, true, {0.99, 1.10}},  {128, true, false, {0.94, 1.06}},
    {128, true, true, {1.14, 1.91}},   {160, false, false, {1.01, 1.31}}, {160, false, true, {1.41, 1.66}},
    {160, true, false, {1.06, 1.22}},  {160, true, true, {1.99, 3.06}},   {192, false, false, {0.92, 1.30}},
    {192, false, true, {1.34, 1.44}},  {192, true, false, {0.97, 1.15}},  {192, true, true, {1.86, 2.74}},
    {256, false, false, {0.93, 1.16}}, {256, true, false, {0.97, 1.09}}};

/// True if ours were measured to take no longer than cuDNN's.
bool hopper_is_faster(const Attention& a, bool backward);

/// The versions that were asked, oldest first, as cudnnGetVersion() gives them: 91400 is 9.14.0.
constexpr std::array<int64_t, 3> kCudnnAsked = {91400, 91900, 92801};

/// One answer. A version that says what the one before it said has no row.
struct CudnnRow {
  int64_t capability, version;
  int64_t causal, deterministic;
  int64_t heads, kv_heads, tq, tk, d;
  int64_t bytes, bytes_a_sample;  // of workspace: bytes + batch x bytes_a_sample; refused: bytes is kRefused
  static constexpr int64_t kRefused = -1;

  bool refused() const { return bytes == kRefused; }
  int64_t of(int64_t batch) const { return bytes + batch * bytes_a_sample; }
  bool operator==(const CudnnRow&) const = default;
};
/// All of a row but its version and answer.
using CudnnShape = std::array<int64_t, 8>;
CudnnShape shape_of(const CudnnRow& row);
CudnnShape shape_of(const Attention& a, int capability);

/// By shape, then by version.
const std::vector<CudnnRow>& cudnn_rows();
/// Most bytes that any of the asked versions wants; nullopt where none was asked about this shape.
std::optional<int64_t> known_workspace(const Attention& a, int capability);

}  // namespace isobar::cuda
