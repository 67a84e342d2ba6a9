// Keys of layout, policy and run.
#include "model/base/spec/spec_rows.h"
#include "model/base/spec/validate.h"

namespace isobar {
namespace {

constexpr Allowed kRanks = from_to(1, kMostRanks);

void add_layout_rows(KeyRows& to, LayoutSpec& l) {
  to.insert(to.end(),
            {{"layout.dp", l.dp, kRanks, "Data-parallel ranks."},
             {"layout.tp", l.tp, kRanks, "Tensor-parallel ranks."},
             {"layout.cp", l.cp, kRanks,
              "Context-parallel ranks: tokens, latitude bands or graph nodes are divided."},
             {"layout.pp", l.pp, kRanks, "Pipeline stages."},
             {"layout.vpp", l.vpp, kRanks, "Chunks of each pipeline rank, with policy.schedule interleaved."},
             {"layout.ep", l.ep, kRanks,
              "Expert-parallel ranks, of dp * cp: neighbours that divide a block's experts. Each has room "
              "for all copies that could come."},
             {"layout.stages", l.stages, from_to(0, kMostRanks),
              "Blocks of each pipeline chunk in forward order, as [0, 24, 24, 0]; merges and splits of "
              "resolutions count. Empty: cut by work."},
             {"layout.order", l.order, "Axes over ranks, fastest first, as Megatron orders them."}});
}

void add_run_rows(KeyRows& to, RunOptions& r) {
  to.insert(
      to.end(),
      {{"run.out", r.out,
        "Directory of the run. Empty: nothing is written. {name}: --name or the file's; {n}: the next "
        "number."},
       {"run.command", r.command,
        "Train by this shell command instead of the engine; {policy.micro_batch}, {ranks}, {out} are "
        "replaced."},
       {"run.reads", r.reads,
        "Its output: auto, megatron, lightning, csv:PATH ..., or a line: \"step {step} loss {loss} * {ms} "
        "ms\"."},
       {"run.engine", r.engine,
        "Whose options {flags} in run.command are: megatron, nemo, torchtitan, deepspeed."},
       {"run.resume", r.resume,
        "{resume} in run.command when a run is taken up: \"--resume {checkpoint}\". Empty: it begins anew."},
       {"run.checkpoint", r.checkpoint,
        "Pattern of the command's checkpoints in run.out, \"ckpt/step-*.pt\"; {checkpoint} is the newest."},
       {"run.by_settings", r.by_settings,
        "Fit and predict the command by its settings alone; set by itself where no net is given."},
       {"run.device", r.device, "auto: a GPU where there is one."},
       {"run.threads", r.threads, from_to(0, 1 << 16),
        "OpenMP threads of a rank; 0: cores over ranks of the host."},
       {"run.serial", r.serial, "Run all ops on one lane."},
       {"run.tensorboard", r.tensorboard,
        "Write curves and pictures for TensorBoard into run.out/tensorboard as the run goes."},
       {"run.hang_timeout", r.hang_timeout, within("(]", 0, 1e9, "give seconds, e.g. 300"),
        "Seconds without progress before a rank ends the run; disk waits do not count."},
       {"run.cuda_graphs", r.cuda_graphs, "GPU: capture a step once and replay it."},
       {"run.gemm_choice", r.gemm_choice,
        "GPU: matrix product algorithms by cuBLASLt's heuristic, or the fastest timed."},
       {"run.attention", r.attention,
        "GPU, Hopper: attention by cuDNN, by our own kernels where they take the shape, or by the faster "
        "on an H200."},
       {"run.fuse", r.fuse, "GPU: bias gradients and tanh GELU inside matrix products."},
       {"run.deterministic_attention", r.deterministic_attention,
        "GPU: attention sums in a fixed order; takes workspace that the plan counts."}});
}

}  // namespace

void add_policy_rows(KeyRows& to, RunSpec& s) {
  add_layout_rows(to, s.layout);
  PolicySpec& p = s.policy;
  to.insert(
      to.end(),
      {{"policy.amp", p.amp,
        "Mixed precision; none is fp32. Of gpt and llama, for predictions: fp8; with --engine also mxfp8 and "
        "nvfp4."},
       {"policy.micro_batch", p.micro_batch, at_least(0),
        "Samples of a rank at a time; 0: its whole batch on CPUs, the largest that fits on a GPU."},
       {"policy.schedule", p.schedule, "Pipeline schedule."},
       {"policy.zero", p.zero, from_to(0, 3, "use 0 to 3"), "ZeRO stage."},
       {"policy.main_grads_dtype", p.main_grads_dtype,
        "Type in which gradients are kept, added and reduced."},
       {"policy.offload_optimizer", p.offload_optimizer, "Keep optimizer moments in host memory."},
       {"policy.offload_parameters", p.offload_parameters,
        "ZeRO 3: keep parameter shares in host memory, too."},
       {"policy.offloaded_layers", p.offloaded_layers, zero_or_positive("give 0 or more"),
        "Layers of a stage whose activations wait in host memory, for predictions with --engine."},
       {"policy.bucket_mb", p.bucket_mb, within("(]", 0, 1e6, "e.g. 25"),
        "MB of fp32 gradients in a reduction."},
       {"policy.overlap", p.overlap, "Reduce gradients under the backward pass."},
       {"policy.sequence_parallel", p.sequence_parallel,
        "Divide norms and residuals over tensor-parallel ranks."},
       {"policy.cp_kind", p.cp_kind, "Context-parallel attention."},
       {"policy.recompute", p.recompute,
        "Recomputation: none, attention's core (graph nets: SiLU; aurora: GELU, too), or whole blocks."},
       {"policy.recompute_method", p.recompute_method,
        "full: all blocks, N at a time, or the first N of a stage."},
       {"policy.recompute_num_layers", p.recompute_num_layers, at_least(1), "full: N of recompute_method."},
       {"policy.attention", p.attention,
        "Tiled attention, or with the score matrix in memory (gpt, llama)."}});
  if (s.net.has_edges())
    to.emplace_back("policy.edge_chunks", p.edge_chunks, from_to(1, 1024),
                    "Pieces in which a sample's edges are computed and recomputed; 1: whole and kept.");
  add_run_rows(to, s.run);
}

}  // namespace isobar
