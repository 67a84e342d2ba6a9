// The CPU's functions by kind of op: each file of kernels ends with those of its kinds, and its rows are
// collected in cpu_ops.cpp.
#pragma once
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/op_call.h"

namespace isobar {

class CpuBackend;

struct CpuLaunch {
  CpuBackend& backend;
  const plan::Op& op;
  int32_t micro, slot;
  const Backend& memory() const;
};
template <plan::OpKind K>
using CpuCall = OpCall<K, CpuLaunch>;
using CpuRow = KernelRow<CpuLaunch>;
using CpuRows = std::span<const CpuRow>;

const OpFunctions<CpuLaunch>& cpu_ops();

namespace cpu {
CpuRows attention_ops(), attention_merge_ops(), average_ops(), class_ops(), dropout_ops(), embedding_ops(),
    expert_ops(), gemm_ops(), graph_ops(), latent_ops(), loss_ops(), norm_ops(), optimizer_ops(), patch_ops(),
    pointwise_ops(), rms_norm_ops(), roll_ops(), rotary_ops(), swiglu_ops();

// Kernels' arguments from an op's attributes
Gemm gemm_of(const plan::Op& op, const plan::Plan& plan);
Attention attention_of(const plan::AttentionAttrs& a, DType act, bool biased = false);
Patch patch_of(const plan::ImageAttrs& a, DType act);
/// Samples that only fill the last micro-batch; `scalars` may be null.
inline int64_t padding_of(const float* scalars) {
  return scalars ? static_cast<int64_t>(scalars[plan::kPadding]) : 0;
}
}  // namespace cpu

}  // namespace isobar
