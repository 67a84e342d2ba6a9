// Keys of layout, policy and run.
#include "model/base/spec_keys.h"

namespace isobar {
namespace {

constexpr const char* kRanks = "[1, 1048576]";

constexpr KeyRow kPolicyKeys[] = {
    {"layout.dp", "", kRanks, "Data-parallel ranks."},
    {"layout.tp", "", kRanks, "Tensor-parallel ranks."},
    {"layout.cp", "", kRanks, "Context-parallel ranks: tokens, latitude bands or graph nodes are divided."},
    {"layout.pp", "", kRanks, "Pipeline stages."},
    {"layout.vpp", "", kRanks, "Chunks of each pipeline rank, with policy.schedule interleaved."},
    {"layout.order", "", "", "Axes over ranks, fastest first, as Megatron orders them."},

    {"policy.amp", "", "none | tf32 | bf16 | fp16 | fp8",
     "Mixed precision; none is fp32, fp8 is for predictions of gpt and llama."},
    {"policy.micro_batch", "", ">= 0",
     "Samples of a rank at a time; 0: its whole batch on CPUs, the largest that fits on a GPU."},
    {"policy.schedule", "", "1f1b | gpipe | interleaved | zb-h1", "Pipeline schedule."},
    {"policy.zero", "", "[0, 3]", "ZeRO stage."},
    {"policy.main_grads_dtype", "", "fp32 | bf16", "Type in which gradients are kept, added and reduced."},
    {"policy.offload_optimizer", "", "", "Keep optimizer moments in host memory."},
    {"policy.offload_parameters", "", "", "ZeRO 3: keep parameter shares in host memory, too."},
    {"policy.bucket_mb", "", "> 0", "MB of fp32 gradients in a reduction."},
    {"policy.overlap", "", "", "Reduce gradients under the backward pass."},
    {"policy.sequence_parallel", "", "", "Divide norms and residuals over tensor-parallel ranks."},
    {"policy.cp_kind", "", "allgather | ring | ulysses", "Context-parallel attention."},
    {"policy.recompute", "", "none | selective | full",
     "Recomputation: none, attention's core (graph nets: SiLU; aurora: GELU, too), or whole blocks."},
    {"policy.recompute_method", "", "uniform | block",
     "full: all blocks, N at a time, or the first N of a stage."},
    {"policy.recompute_num_layers", "", ">= 1", "full: N of recompute_method."},
    {"policy.attention", "", "flash | unfused",
     "Tiled attention, or with the score matrix in memory (gpt, llama)."},
    {"policy.edge_chunks", "", "[1, 1024]",
     "Pieces in which a sample's edges are computed and recomputed; 1: whole and kept."},

    {"run.out", "", "", "Directory of the run. Empty: nothing is written."},
    {"run.device", "", "cpu | cuda | auto", "auto: a GPU where there is one."},
    {"run.threads", "", ">= 0", "OpenMP threads of a rank; 0: cores over ranks of the host."},
    {"run.serial", "", "", "Run all ops on one lane."},
    {"run.tensorboard", "", "",
     "Write curves and pictures for TensorBoard into run.out/tensorboard as the run goes."},
    {"run.hang_timeout", "", "> 0",
     "Seconds without progress before a rank ends the run; disk waits do not count."},
    {"run.cuda_graphs", "", "", "GPU: capture a step once and replay it."},
    {"run.gemm_choice", "", "heuristic | timed",
     "GPU: matrix product algorithms by cuBLASLt's heuristic, or the fastest timed."},
    {"run.fuse", "", "", "GPU: bias gradients and tanh GELU inside matrix products."},
    {"run.deterministic_attention", "", "",
     "GPU: attention sums in a fixed order; takes workspace that the plan counts."},
};

}  // namespace

std::span<const KeyRow> policy_key_rows() {
  return kPolicyKeys;
}

}  // namespace isobar
