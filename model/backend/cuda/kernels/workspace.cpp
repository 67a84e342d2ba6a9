#include "model/backend/cuda/kernels/workspace.h"

#include <cmath>

#include "model/backend/cuda/kernels/attention/attention_path.h"
#include "model/backend/cuda/kernels/cuda_ops.h"

namespace isobar {

cuda::Attention cuda::attention_of(const plan::AttentionAttrs& a, DType act, bool deterministic) {
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
          a.last_counts == 1 ? 0.0f : std::log(static_cast<float>(a.last_counts)) / a.scale,
          a.causal ? a.token0 : -1,
          a.window};
}

plan::Workspace cuda_workspace(int capability, bool deterministic, AttentionChoice attention) {
  const auto bytes = [=](const plan::Op& op) -> int64_t {
    const auto [rows, cols] = plan::extent_of(op.attrs);
    switch (op.kind) {
      case plan::OpKind::gemm:
        return cuda::kGemmWorkspace;
      case plan::OpKind::attention:
      case plan::OpKind::attention_backward: {
        cuda::Attention a = cuda::attention_of(op.as<plan::AttentionAttrs>(), DType::bf16, deterministic);
        a.biased = static_cast<bool>(plan::bias_of_scores(op));
        return cuda::attention_workspace(a, op.kind == plan::OpKind::attention_backward, capability,
                                         attention);
      }
      case plan::OpKind::residual_norm_backward:
      case plan::OpKind::norm_residual_backward:
        return int64_t{4} * 3 * cols * cuda::norm_partials(rows);
      case plan::OpKind::rms_norm_backward:
        return int64_t{4} * cols * cuda::norm_partials(rows);
      case plan::OpKind::activation_backward:
      case plan::OpKind::column_sum:
        return int64_t{4} * cols * cuda::column_partials(rows, cols);
      case plan::OpKind::squared_sum:
        return int64_t{8} * cuda::squared_sum_partials(cols);
      case plan::OpKind::loss_sums: {
        const plan::ImageAttrs& a = op.as<plan::LossAttrs>().image;
        return int64_t{8} *
               cuda::loss_columns(static_cast<bool>(plan::in<plan::OpKind::loss_sums>(op, "mask"))) *
               a.channels * a.batch * cuda::loss_partials(a.batch, shapes::tokens_of(a));
      }
      case plan::OpKind::cross_entropy:
        return int64_t{4} * 2 * rows;
      default:
        return 0;
    }
  };
  return {bytes, cuda::kDeviceAlign};
}

}  // namespace isobar
