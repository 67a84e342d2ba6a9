#include "model/backend/cuda/kernels/workspace.h"

namespace isobar {
namespace {

// cuDNN 9.19's fused attention, asked for the plans of A100, H100 and B200: backward keeps dq in f32 and two
// statistics a row; without Hopper's engines dq twice, and somewhat more a head. Forward wants 256 bytes at
// most.
int64_t attention_backward_bytes(const Attrs& a, int capability) {
  const int64_t rows = a.batch * a.heads * a.tq;
  const int64_t dq = 4 * rows * a.d, sums = 4 * rows;
  return (capability == 9 ? dq : 2 * dq + 2048 * a.batch * a.heads) + sums + 4096;
}

}  // namespace

int64_t cuda::tokens_of(const Attrs& a) {
  if (a.tokens > 0) return a.tokens;
  return a.patch > 0 ? (a.height / a.patch) * (a.width / a.patch) : 0;
}

Workspace cuda_workspace(int capability) {
  return [capability](const Op& op) -> int64_t {
    const Attrs& a = op.a;
    switch (op.kind) {
      case OpKind::gemm:
        return cuda::kGemmWorkspace;
      case OpKind::attention:
        return 1024;
      case OpKind::attention_backward:
        return attention_backward_bytes(a, capability);
      case OpKind::residual_norm_backward:
        return int64_t{4} * 3 * a.n * cuda::norm_partials(a.m);
      case OpKind::gelu_backward:
      case OpKind::column_sum:
        return int64_t{4} * a.n * cuda::column_partials(a.m, a.n);
      case OpKind::squared_sum:
        return int64_t{8} * cuda::squared_sum_partials(a.n);
      case OpKind::loss_sums:
        return int64_t{8} * 3 * a.channels * a.batch * cuda::loss_partials(a.batch, cuda::tokens_of(a));
      default:
        return 0;
    }
  };
}

}  // namespace isobar
