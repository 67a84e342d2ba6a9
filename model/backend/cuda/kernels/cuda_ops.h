// The GPU's functions by kind of op: each file of kernels ends with those of its kinds; libraries' are in
// cuda_backend.cpp, which collects them all.
#pragma once
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/op_call.h"

namespace isobar::cuda {

struct CudaLaunch {
  Backend& backend;
  const plan::Op& op;
  int32_t micro, slot;
  cudaStream_t stream;
  const Backend& memory() const { return backend; }
  /// Throws std::logic_error if the plan has none.
  Address workspace() const { return workspace_at(backend, op, slot); }
  static Address workspace_at(const Backend& backend, const plan::Op& op, int32_t slot) {
    const plan::View& v = plan::workspace_of(op);
    if (!v) throw std::logic_error(op.path + ": the plan was made without the GPU's workspaces");
    return Address(backend.at(v, slot));
  }
};
template <plan::OpKind K>
using CudaCall = OpCall<K, CudaLaunch>;
using CudaRow = KernelRow<CudaLaunch>;
using CudaRows = std::span<const CudaRow>;

CudaRows class_ops(), column_ops(), dropout_ops(), expert_ops(), graph_ops(), image_ops(), language_ops(),
    norm_ops(), optimizer_ops(), pointwise_ops(), rms_norm_ops(), roll_ops();

// Kernels' arguments from an op's attributes
Patch patch_of(const plan::ImageAttrs& a, DType act);

}  // namespace isobar::cuda
