// The CPU's functions by kind of op: cpu_ops.cpp has those whose kernels take the GPU's operands, too, and
// collects the others, with which files of kernels end.
#pragma once
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/shared_ops.h"

namespace isobar {

class CpuBackend;

struct CpuLaunch {
  CpuBackend& backend;
  const plan::Op& op;
  int32_t micro, slot;
  const Backend& memory() const;
  template <class Kernel, class... Operands>
  void run(Kernel* kernel, const Operands&... operands) const {
    kernel(operands...);
  }
  template <class Kernel, class... Operands>
  void run_in_workspace(Kernel* kernel, const Operands&... operands) const {
    kernel(operands...);
  }
};
template <plan::OpKind K>
using CpuCall = OpCall<K, CpuLaunch>;
using CpuRow = KernelRow<CpuLaunch>;
using CpuRows = std::span<const CpuRow>;

const OpFunctions<CpuLaunch>& cpu_ops();

namespace cpu {
CpuRows attention_ops(), attention_merge_ops(), average_ops(), class_ops(), dropout_ops(), expert_ops(),
    gemm_ops(), loss_ops(), optimizer_ops(), pointwise_ops(), swiglu_ops();

// Kernels' arguments from an op's attributes
Gemm gemm_of(const plan::Op& op, const plan::Plan& plan);
Attention attention_of(const plan::AttentionAttrs& a, DType act, bool biased = false);
/// Samples that only fill the last micro-batch; `scalars` may be null.
inline int64_t padding_of(const float* scalars) {
  return scalars ? static_cast<int64_t>(scalars[plan::kPadding]) : 0;
}
}  // namespace cpu

}  // namespace isobar
