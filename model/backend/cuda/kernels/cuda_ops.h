// The GPU's functions by kind of op: cuda_backend.cpp has those of libraries and those whose kernels take the
// CPU's operands, too, and collects the others, with which files of kernels end.
#pragma once
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/shared_ops.h"

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
  template <class Kernel, class... Operands>
  void run(Kernel* kernel, const Operands&... operands) const {
    kernel(operands..., stream);
  }
  template <class Kernel, class... Operands>
  void run_in_workspace(Kernel* kernel, const Operands&... operands) const {
    kernel(operands..., workspace(), stream);
  }
};
template <plan::OpKind K>
using CudaCall = OpCall<K, CudaLaunch>;
using CudaRow = KernelRow<CudaLaunch>;
using CudaRows = std::span<const CudaRow>;

CudaRows class_ops(), dropout_ops(), expert_ops(), language_ops(), optimizer_ops(), pointwise_ops();

}  // namespace isobar::cuda
