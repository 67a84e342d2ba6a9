// Attention by cuDNN's fused kernels, for 16-bit types. Plans are made once a shape, before the first step,
// and keep within the workspace that the plan declares.
//
//   CudnnAttention attention;
//   if (CudnnAttention::takes(shape)) { attention.prepare(shape, false, bytes); attention.forward(shape, …);
//   }
//
// Operands lie as the plan has them, [batch, tokens, heads, d] with rows ld elements apart; lse is natural,
// [batch, heads, tq] f32, as the CPU's and the plain kernels' is. Built with cuDNN's frontend headers;
// without them takes() is always false.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

class CudnnAttention {
 public:
  CudnnAttention();
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  static bool built();  // with cuDNN's frontend
  /// `capability`: the device's, major
  static bool takes(const Attention& a, bool backward, int capability);
  void prepare(const Attention& a, bool backward, int64_t workspace_bytes);
  void forward(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
               void* workspace, cudaStream_t stream);
  void backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                const float* lse, const void* d_o, void* dq, void* dk, void* dv, void* workspace,
                cudaStream_t stream);
  static std::string version();  // "9.19.0", or "" without

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar::cuda
