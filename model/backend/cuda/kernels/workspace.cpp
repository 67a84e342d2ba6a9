#include "model/backend/cuda/kernels/workspace.h"

#include <cmath>

#include "model/backend/cuda/kernels/attention_path.h"
#include "model/backend/cuda/kernels/cuda_ops.h"

namespace isobar {

int64_t cuda::tokens_of(const Attrs& a) {
  if (a.tokens > 0) return a.tokens;
  return a.patch > 0 ? (a.height / a.patch) * (a.width / a.patch) : 0;
}

cuda::Patch cuda::patch_of(const Attrs& a, DType act) {
  const int64_t tokens = tokens_of(a);
  const int64_t rows = a.m > 0 ? a.m : a.batch * tokens - a.row0;
  return {a.batch, a.channels, a.height, a.width, a.patch, act, a.token0, tokens, a.row0, rows};
}

cuda::Attention cuda::attention_of(const Attrs& a, DType act, bool deterministic) {
  return {a.batch,
          a.heads,
          a.kv_heads,
          a.tq,
          a.tk,
          a.d,
          a.scale,
          a.causal,
          act,
          a.ld_q,
          a.ld_kv,
          a.ld_o,
          a.tf32,
          deterministic,
          a.each == 1 ? 0.0f : std::log(static_cast<float>(a.each)) / a.scale,
          a.causal ? a.token0 : -1};
}

Workspace cuda_workspace(int capability, bool deterministic) {
  const auto bytes = [=](const Op& op) -> int64_t {
    const Attrs& a = op.a;
    switch (op.kind) {
      case OpKind::gemm:
        return cuda::kGemmWorkspace;
      case OpKind::attention:
      case OpKind::attention_backward:
        return cuda::attention_workspace(cuda::attention_of(a, DType::bf16, deterministic),
                                         op.kind == OpKind::attention_backward, capability);
      case OpKind::residual_norm_backward:
      case OpKind::norm_residual_backward:
        return int64_t{4} * 3 * a.n * cuda::norm_partials(a.m);
      case OpKind::rms_norm_backward:
        return int64_t{4} * a.n * cuda::norm_partials(a.m);
      case OpKind::activation_backward:
      case OpKind::column_sum:
        return int64_t{4} * a.n * cuda::column_partials(a.m, a.n);
      case OpKind::squared_sum:
        return int64_t{8} * cuda::squared_sum_partials(a.n);
      case OpKind::loss_sums:
        return int64_t{8} * cuda::loss_columns(static_cast<bool>(in<OpKind::loss_sums>(op, "mask"))) *
               a.channels * a.batch * cuda::loss_partials(a.batch, cuda::tokens_of(a));
      case OpKind::cross_entropy:
        return int64_t{4} * 2 * a.m;
      default:
        return 0;
    }
  };
  return {bytes, cuda::kDeviceAlign};
}

}  // namespace isobar
