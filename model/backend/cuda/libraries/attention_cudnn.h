// Attention by cuDNN's fused kernels, for 16-bit types. Plans are made once a shape, before the first step,
// within the workspace that the plan declares.
//
//   CudnnAttention attention;
//   if (cudnn_takes(shape, false, 9)) attention.prepare(shape, false, bytes);
//   attention.forward(shape, …);
//
//   CudnnAttention elsewhere(DescribedGpu{json, 80});     // without such a GPU
//   elsewhere.prepare(shape, true, bytes);                // throws what A100 would
//   elsewhere.plan(shape, true).workspace;
//
// Operands are [batch, tokens, heads, d] with rows ld elements apart; lse is natural, [batch, heads, tq] f32,
// as in the other kernels. Needs cuDNN's frontend headers at build time, else none can be constructed.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "model/backend/cuda/kernels/attention/attention_path.h"

namespace isobar::cuda {

struct DescribedGpu {
  std::string properties;  // JSON, for cudnn_frontend::DeviceProperties::deserialize
  int sm = 0;              // 80, 90, 100
};
struct CudnnPlan {
  std::string engine;     // "eng6_k24=26"
  int64_t workspace = 0;  // bytes
};

class CudnnAttention {
 public:
  CudnnAttention();
  /// Makes the plans that cuDNN would make on that GPU; they cannot be run.
  explicit CudnnAttention(const DescribedGpu& gpu);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  static bool built();  // with cuDNN's frontend
  /// Throws Failure if cuDNN does not support it, or not within that workspace.
  void prepare(const Attention& a, bool backward, int64_t workspace_bytes);
  const CudnnPlan& plan(const Attention& a, bool backward) const;  // made by prepare()
  void forward(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
               void* workspace, cudaStream_t stream);
  void backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                const float* lse, const void* d_o, void* dq, void* dk, void* dv, void* workspace,
                cudaStream_t stream);
  static std::string version();     // "9.19.0", or "" without cuDNN
  static int64_t version_number();  // 91900, or 0

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar::cuda
