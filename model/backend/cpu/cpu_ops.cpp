#include "model/backend/cpu/cpu_ops.h"

#include "model/backend/cpu/cpu_backend.h"

namespace isobar {
namespace {

void run_fetch(const CpuCall<plan::OpKind::fetch>& c) {
  c.backend.fetch(c.op, c.micro, c.slot);
}

CpuRows fetch_ops() {
  static constexpr CpuRow kRows[] = {row<run_fetch>};
  return kRows;
}

}  // namespace

const Backend& CpuLaunch::memory() const {
  return backend;
}

const OpFunctions<CpuLaunch>& cpu_ops() {
  using namespace cpu;
  static const OpFunctions<CpuLaunch> all = {
      fetch_ops(),    attention_ops(), attention_merge_ops(), average_ops(),
      class_ops(),    dropout_ops(),   embedding_ops(),       expert_ops(),
      gemm_ops(),     graph_ops(),     latent_ops(),          loss_ops(),
      norm_ops(),     optimizer_ops(), patch_ops(),           pointwise_ops(),
      rms_norm_ops(), roll_ops(),      rotary_ops(),          swiglu_ops()};
  return all;
}

}  // namespace isobar
