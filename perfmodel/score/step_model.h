// The step of a foreign engine, counted from what a table says about it and priced by coefficients: the
// closed form that `isobar score` fits. Engines differ in kernels and overlap, not in what has to be done, so
// counts are exact and every coefficient is a deviation from the spec sheet (1 / share of the rate that is
// reached) or a time with units.
//
//   StepCounts c = count_step(run);
//   double s = step_seconds(c, spec_coefficients());    // nothing fitted
//
// Sources: GEMM and attention FLOPs Narayanan 2021 (appendix) and Korthikanti 2022; ring collectives
// 2 (n-1)/n; pipeline (m + (p-1)/v) slots; zero-bubble schedules Qi 2024.
#pragma once
#include <array>
#include <cstddef>

#include "perfmodel/score/prices.h"
#include "perfmodel/score/published_run.h"

namespace isobar {

enum class Price : int {
  gemm,            // slowdown against the best large matrix product
  gemm_low,        // further factor of fp8 and fp4 products
  gemm_fp4,        // and of fp4 products on top
  gemm_width,      // matrix width at which half of the efficiency is left
  gemm_tokens,     // rows at which half of the efficiency is left
  attention,       // 1/efficiency of flash-attention 2 over many keys
  attention_keys,  // that a query meets at which half of it is left: tiles begin, end and are masked in part
  attention_v1,    // further factor of flash-attention 1
  scores,          // 1/efficiency of unfused products with the T x T scores
  ragged_heads,    // further factor when the head dimension is no multiple of 8: no tensor cores
  scores_torch,    // passes over the T x T scores, beyond the counted ones
  scores_fused,    // the same with a fused softmax
  pointwise,       // bytes actually moved over bytes counted
  rms_saved,       // share of them that a fused RMS norm leaves
  compiled,        // ... that a compiler leaves, which makes few kernels of many
  launch,          // host seconds a layer's forward and backward need to be launched
  launch_tp,  // further host seconds a tensor-parallel peer, of engines whose pipelines wait for every call
  tp_link,
  tp_nic,      // 1/share of the rate
  tp_exposed,  // share of its traffic that engines with overlap cannot hide
  tp_latency,
  tp_hop,  // seconds a collective; a doubling of nodes
  cp_link,
  ep_link,
  dp_link,
  dp_nic,
  dp_latency,  // seconds a doubling of ranks
  dp_hidden,   // share of its window that gradient traffic can hide under
  pp_link,
  pp_latency,
  zero3_link,
  zero3_nic,
  zero3_exposed,  // share of its traffic that nothing hides
  offload,        // share of activations' way to the host and back that nothing hides
  optimizer,      // bytes moved over bytes counted
  vocabulary,     // time of the last layer over its counted time
  fill,           // pipeline bubble over its closed form
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

/// Counts of one step of the busiest stage. Times are at spec-sheet rates.
struct StepCounts {
  double layers = 1;                 // of the stage
  double gemm_s = 0;                 // a layer and micro-batch, all passes
  double low = 0, fp4 = 0;           // 1: fp8 or fp4; fp4
  double width = 1, tokens = 1;      // of the local products
  double attention_s = 0, keys = 1;  // keys that a query meets on the mean
  double usable = 1;                 // share of the peak that flash kernels are written for
  double scores_s = 0;               // unfused attention, at the matrix peak
  double v1 = 0;                     // 1: flash-attention 1
  double ragged = 0;                 // 1: head dimension no multiple of 8
  double torch_s = 0, fused_s = 0;   // traffic of unfused scores
  double pointwise_s = 0;
  double rms = 0;       // 1: fused RMS norm
  double compiled = 0;  // 1: pointwise work is compiled
  double launches = 1;  // layer passes: forward + backward = 1
  double peers = 0;     // tensor-parallel peers inside a pipeline
  double tp_s = 0, tp_calls = 0, tp_hops = 0;
  bool tp_far = false, tp_overlapped = false;
  double cp_s = 0, ep_s = 0;
  double vocabulary_s = 0;  // of the busiest stage, a micro-batch
  double zero3_s = 0;       // a layer and micro-batch
  bool zero3_far = false;
  double offload_s = 0;                // a micro-batch
  double pp_s = 0, pp_calls = 0;       // a micro-batch
  double pp_waits = 1;                 // share of the micro-batches whose transfers nothing hides
  double micro_batches = 1, fill = 0;  // slots
  double dp_s = 0, dp_doublings = 0;
  double dp_window = 0;  // micro-batches under which gradients and weights travel
  double dp_last = 1;    // share of them that has to wait for the last layers
  bool dp_far = false;
  double optimizer_s = 0;
  double gpu_doublings = 0;
  double ceiling_s = 0;  // matrix FLOPs of the step at the peak
};

StepCounts count_step(const PublishedRun& run);
double step_seconds(const StepCounts& c, const Prices& p);
/// The accelerator's time of a layer over the host's time to launch it: above 1 the accelerator is busy.
double busy(const StepCounts& c, const Prices& p);

/// What is said of a memory model too: matrix parameters of one layer, and of the fullest stage with its
/// share of the vocabulary, all before division by tp.
double layer_parameters(const PublishedRun& run);
double stage_layers(const PublishedRun& run);

}  // namespace isobar
