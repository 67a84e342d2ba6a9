// The step of a foreign engine, counted from a table's row and priced by coefficients: the closed form that
// `isobar score` fits. Engines differ in kernels and overlap, not in necessary work, so counts are exact and
// every coefficient is a deviation from the spec sheet (1 / achieved share of the rate), or a time.
//
//   StepCounts c = count_step(run);
//   double s = step_seconds(c, spec_coefficients());    // nothing fitted
//
// Sources: GEMM and attention FLOPs Narayanan 2021 (appendix) and Korthikanti 2022; ring collectives
// 2 (n-1)/n; pipeline (m + (p-1)/v) slots; zero-bubble schedules Qi 2024.
#pragma once
#include <array>
#include <cstddef>

#include "perfmodel/score/prices/prices.h"
#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

enum class Price : int {
  gemm,            // slowdown against the best large matrix product
  gemm_low,        // further factor of fp8 and fp4 products
  gemm_fp4,        // further factor of fp4 products
  gemm_width,      // matrix width at half efficiency, on an A100
  gemm_tokens,     // rows at half efficiency, on an A100
  attention,       // 1/efficiency of flash-attention 2 over many keys
  attention_keys,  // keys per query at half efficiency, due to partial tiles
  attention_v1,    // further factor of flash-attention 1
  scores,          // 1/efficiency of unfused products with the T x T scores
  ragged_heads,    // further factor without tensor cores: head dimension no multiple of 8
  scores_torch,    // passes over the T x T scores, beyond the counted ones
  scores_fused,    // the same with a fused softmax
  pointwise,       // bytes moved relative to bytes counted
  norms_eager,     // likewise of RMS norms out of PyTorch's own ops
  compiled,        // … left by a compiler, which fuses kernels
  launch,          // host seconds to launch a layer's forward and backward
  launch_tp,  // further host seconds a tensor-parallel peer, for engines whose pipelines wait for every call
  tp_link,
  tp_nic,      // 1/share of the rate
  tp_exposed,  // exposed share of its traffic, for engines with overlap
  tp_latency,
  tp_hop,  // seconds a collective; a doubling of nodes
  cp_link,
  ep_link,
  ep_nic,
  experts,         // grouped products of experts relative to dense ones
  expert_traffic,  // bytes that dispatching moves on the chip, relative to bytes counted
  expert_launch,   // further host seconds of a layer with experts
  dp_link,
  dp_nic,
  dp_latency,  // seconds a doubling of ranks
  dp_hidden,   // share of its window in which gradient traffic is hidden
  pp_link,
  pp_latency,
  zero3_link,
  zero3_nic,
  zero3_latency,  // relative to the latency of its messages
  zero3_exposed,  // what overlapped traffic costs the computation, relative to its bytes on the fast link
  offload,        // exposed share of activations' transfers to the host and back
  optimizer,      // bytes moved relative to bytes counted
  vocabulary,     // time of the vocabulary's products relative to counted time
  fill,           // pipeline bubble relative to its closed form
  micro,          // seconds a micro-batch
  step,           // seconds a step
  straggler,      // relative cost of a doubling of GPUs
};
constexpr size_t kPrices = static_cast<size_t>(Price::straggler) + 1;
using Prices = std::array<double, kPrices>;
constexpr size_t index_of(Price p) {
  return static_cast<size_t>(p);
}

const PriceInfo& info_of(Price p);
Prices spec_prices();

/// Counts of one step of the busiest stage, as times at spec-sheet rates.
struct StepCounts {
  double layers = 1;                 // of the stage
  double gemm_s = 0;                 // a layer and micro-batch, all passes
  double low = 0, fp4 = 0;           // 1: fp8 or fp4; fp4
  double width = 1, tokens = 1;      // of the local products, as an A100 would have to have them
  double attention_s = 0, keys = 1;  // mean keys per query
  double usable = 1;                 // share of the peak of the GPUs that flash kernels are written for
  double scores_s = 0;               // unfused attention, at the matrix peak
  double v1 = 0;                     // 1: flash-attention 1
  double ragged = 0;                 // 1: head dimension no multiple of 8
  double torch_s = 0, fused_s = 0;   // traffic of unfused scores
  double pointwise_s = 0;
  double expert_layers = 0;                   // share of the layers
  double expert_s = 0, expert_traffic_s = 0;  // products; rows sorted, gathered and scattered
  double expert_width = 1, expert_rows = 1;   // of an expert's products, likewise
  double norms_s = 0;                         // further traffic of RMS norms without a kernel of their own
  double compiled = 0;                        // 1: pointwise work is compiled
  double launches = 1;                        // layer passes: forward + backward = 1
  double peers = 0;                           // tensor-parallel peers inside a pipeline
  double tp_s = 0, tp_calls = 0, tp_hops = 0;
  bool tp_far = false, tp_overlapped = false;
  double cp_s = 0, ep_s = 0;
  bool ep_far = false;
  double vocabulary_s = 0;  // of the busiest stage, a micro-batch
  double zero3_s = 0,
         zero3_wait_s = 0;   // a layer and micro-batch: on the wires; latency of the ring's messages
  double zero3_touch_s = 0;  // its bytes at the rate of the fast link
  bool zero3_far = false, zero3_overlapped = true;
  double offload_s = 0;                // a micro-batch
  double pp_s = 0, pp_calls = 0;       // a micro-batch
  double pp_waits = 1;                 // share of the micro-batches with exposed transfers
  double micro_batches = 1, fill = 0;  // slots
  double dp_s = 0, dp_doublings = 0;
  double dp_window = 0;  // micro-batches that overlap transfers of gradients and weights
  double dp_last = 1;    // share of the transfers that waits for the last layers
  bool dp_far = false;
  double optimizer_s = 0;
  double gpu_doublings = 0;
  double ceiling_s = 0;  // matrix FLOPs of the step at the peak
};

StepCounts count_step(const PublishedRun& run);
double step_seconds(const StepCounts& c, const Prices& p);
/// Accelerator time of the step at spec-sheet rates, with the pipeline's bubble and tensor parallelism's
/// wires inside a host: what no wait adds to.
double device_floor(const StepCounts& c);
/// A layer's accelerator time over its host launch time: above 1 the accelerator is busy.
double busy(const StepCounts& c, const Prices& p);

/// Layers of the fullest stage, including its share of the vocabulary; shared with the memory model.
double stage_layers(const PublishedRun& run);

}  // namespace isobar::perf
