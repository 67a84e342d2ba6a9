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
#include <optional>
#include <vector>

#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

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
