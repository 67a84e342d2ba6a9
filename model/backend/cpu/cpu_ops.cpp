#include "model/backend/cpu/cpu_ops.h"

#include "model/backend/cpu/cpu_backend.h"

namespace isobar {
namespace {

void run_fetch(const CpuCall<plan::OpKind::fetch>& c) {
  c.backend.fetch(c.op, c.micro, c.slot);
}

CpuRows shared_ops() {
  using namespace cpu;
  using L = CpuLaunch;
  static constexpr CpuRow kRows[] = {row<run_fetch>,
                                     row<run_residual_norm<residual_norm_forward, L>>,
                                     row<run_residual_norm_backward<residual_norm_backward, L>>,
                                     row<run_norm_residual<norm_residual, L>>,
                                     row<run_norm_residual_backward<norm_residual_backward, L>>,
                                     row<run_rms_norm<rms_norm, L>>,
                                     row<run_rms_norm_backward<rms_norm_backward, L>>,
                                     row<run_residual_add<residual_add, L>>,
                                     row<run_activation<activation_forward, L>>,
                                     row<run_activation_backward<activation_backward, L>>,
                                     row<run_column_sum<column_sum, L>>,
                                     row<run_period_sum<period_sum, L>>,
                                     row<run_swap<cpu::swap, L>>,
                                     row<run_patch_gather<patch_gather, L>>,
                                     row<run_roll<roll, L>>,
                                     row<run_unroll<unroll, L>>,
                                     row<run_gather<gather, L>>,
                                     row<run_segment_sum<segment_sum, L>>,
                                     row<run_rotary<rotary, L>>,
                                     row<run_rotary_backward<rotary, L>>,
                                     row<run_latent_heads<latent_heads, L>>,
                                     row<run_latent_heads_backward<latent_heads_backward, L>>,
                                     row<run_embedding<embedding, L>>,
                                     row<run_embedding_backward<embedding_backward, L>>,
                                     row<run_cross_entropy_max<cross_entropy_max, L>>,
                                     row<run_cross_entropy_sums<cross_entropy_sums, L>>,
                                     row<run_route<route, L>>,
                                     row<run_dispatch<gather, L>>};
  return kRows;
}

}  // namespace

const Backend& CpuLaunch::memory() const {
  return backend;
}

const OpFunctions<CpuLaunch>& cpu_ops() {
  using namespace cpu;
  static const OpFunctions<CpuLaunch> all = {shared_ops(),    attention_ops(), attention_merge_ops(),
                                             average_ops(),   class_ops(),     dropout_ops(),
                                             expert_ops(),    gemm_ops(),      loss_ops(),
                                             optimizer_ops(), pointwise_ops(), swiglu_ops()};
  return all;
}

}  // namespace isobar
