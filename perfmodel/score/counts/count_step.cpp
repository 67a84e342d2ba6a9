// The counts of a step, from the work of its net's plan: what engines do otherwise (kernels, recomputation,
// ZeRO, schedules) and which wires their traffic takes.
#include <algorithm>
#include <cmath>

#include "perfmodel/score/counts/memory_model.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/step/collective.h"

namespace isobar::perf {

double stage_layers(const PublishedRun& r) {
  if (r.pp <= 1) return r.layers;
  if (r.short_end_stages) return std::ceil((r.layers + 2) / r.pp);
  if (r.balanced_embedding) return std::max(1.0, std::ceil((r.layers + 2) / r.pp));
  return std::max(1.0, std::ceil(r.layers / r.pp));
}

namespace {

constexpr double kA100Arithmetic = 248;  // FLOP while a byte is read, in bf16: sizes are given as on an A100

constexpr double kFused = 0.4;  // bytes that kernels of plans move relative to one kernel an operation

constexpr double kOpsOfBlock = 26;  // of a Llama's, by which launches are priced

/// Accelerators on the fast link: the node, a larger rack-scale domain, or a socket's cards without links.
double domain_of(const PublishedRun& r) {
  return r.gpu->sockets ? r.gpu->domain : std::max<double>(r.node, r.gpu->domain);
}

double nic_rate_of(const PublishedRun& r) {
  return r.nic_rate > 0 ? r.nic_rate : r.gpu->nic_rate;
}

/// Seconds on the wires at full rate of a ring that `bytes` pass `passes` times, over `ranks` of which
/// `together` share a node.
double ring_seconds(const PublishedRun& r, double bytes, double passes, double ranks, double together,
                    bool& far) {
  const bool beyond = ranks > together + 0.5;
  far = beyond && !r.gpu->sockets;
  const CollectiveCounts c = ring_counts(bytes, {ranks, beyond ? together : ranks}, passes);
  return std::max(c.wire_host / r.gpu->link_rate, c.wire_net / nic_rate_of(r));
}

/// Share of the peak that flash kernels can use: those for Ampere (FlashAttention-2: 200 of an A100's 312
/// TFLOP/s) reach half as large a share on Hopper (335 of 989; Dao 2023).
double usable_by_flash(const PublishedRun& r) {
  constexpr double kOldOnNew = 0.53;
  return is_after_flash(*r.gpu) && !r.habits.hopper_attention ? kOldOnNew : 1;
}

/// The share of p - 1 slots that stays idle. ZB-2p's stages end in the order in which they began (Qi 2024); a
/// common end adds a wait.
double bubble_of(const PublishedRun& r) {
  if (r.schedule == Schedule::zb_1p) return 0.4;
  if (r.schedule != Schedule::zb_2p) return 1;
  return r.stages_together ? 1.0 / 3 : 0.02;
}

struct StepCounting {
  StepCounts count() {
    c.layers = stage_layers(r);
    c.low = r.precision > Precision::bf16 && g.peak(r.precision) > g.peak(Precision::bf16) ? 1 : 0;
    c.fp4 = r.precision == Precision::fp4 && g.fp4 > 0 ? 1 : 0;
    c.micro_batches = r.micro_batches();
    c.gpu_doublings = std::log2(r.gpus);
    count_products();
    count_attention();
    count_pointwise();
    count_launches();
    if (r.tp > 1) count_tensor_traffic();
    if (r.cp > 1) count_context_traffic();
    if (r.experts > 0) count_experts();
    count_ends();
    if (r.dp * r.cp > 1 && !r.frozen_weights) r.zero >= 3 ? count_sharded() : count_gradients();
    if (r.offloaded_layers > 0) count_offload();
    if (r.pp > 1) count_transfers();
    count_fill();
    if (!r.frozen_weights) count_optimizer();
    return c;
  }

  void count_products();
  void count_attention();
  void count_pointwise();
  void count_launches();
  void count_tensor_traffic();
  void count_context_traffic();
  void count_experts();
  void count_ends();
  void count_sharded();
  void count_gradients();
  void count_offload();
  void count_transfers();
  void count_fill();
  void count_optimizer();

  /// FLOPs of a micro-batch, with a forward pass repeated so often.
  double products(const PartCounts& part, double repeated) const {
    return samples * ((1 + repeated) * part.forward.products + part.backward.products -
                      frozen * part.backward.weight_gradients);
  }
  /// Parameters of the fullest stage, without experts that `ep` divides
  double parameters_of_stage() const {
    return c.layers * own.dense + (r.pp > 1 ? std::max(net.first.dense, net.last.dense + net.tied)
                                            : net.first.dense + net.last.dense);
  }
  /// Ranks of a data-parallel group on one node.
  double replicas_together() const { return std::max(1.0, std::min(replicas, domain_of(r) / r.tp)); }
  double ring_of_replicas(double dense, double of_experts, double passes);

  const PublishedRun& r;
  const ChipSpec& g = *r.gpu;
  const NetCounts& net = count_net(r);
  const PassCounts &forward = net.block.forward, &backward = net.block.backward;
  const double tokens = r.micro_batch * r.seq / r.cp;  // of a rank's micro-batch
  const double samples = r.micro_batch / r.cp / net.samples;
  const double replicas = r.dp * r.cp;
  const double bytes = r.precision == Precision::fp32 || r.precision == Precision::tf32 ? 4 : 2;
  const double width_of_gradients = r.autocast ? 4 : bytes;  // autocast's parameters are fp32, too
  const Precision wide = std::min(r.precision, Precision::bf16);
  const PlacedExperts experts = experts_of(r);
  const OwnParameters own = own_parameters(r);
  const double frozen = r.frozen_weights ? 1 : 0;                         // frozen weights need no gradients
  const double full = r.recompute == Recompute::full ? r.recomputed : 0;  // share of the layers
  const bool selective = r.recompute == Recompute::selective;
  // If every second product's result is kept, the others are recomputed, a good third of a block's, and all
  // pointwise work.
  const bool operators = selective && r.habits.selective_operators;
  const double again = operators ? 0.37 : full;
  // Roofline: a product's operands take as long as its arithmetic at sizes proportional to this.
  const double operand = r.precision == Precision::fp4 ? 0.5 : r.precision == Precision::fp8 ? 1 : bytes;
  const double arithmetic = g.reached(r.precision) * operand / g.memory_rate / kA100Arithmetic;
  StepCounts c;
};

void StepCounting::count_products() {
  const double expert_flops = samples * ((1 + again) * forward.experts + backward.experts -
                                         frozen * backward.expert_weight_gradients);
  c.gemm_s = products(net.block, again) / g.reached(r.precision);
  c.width = forward.products / forward.per_width / arithmetic;
  c.tokens = samples * forward.products / forward.per_row / arithmetic;
  c.expert_layers = experts.share;
  c.expert_s = expert_flops / g.reached(r.precision);
  const double ends = (products(r.pp > 1 ? PartCounts() : net.first, 0) + products(net.last, 0)) / r.pp;
  c.ceiling_s = ((products(net.block, again) + expert_flops) * r.layers / r.pp + ends) / g.peak(r.precision) *
                c.micro_batches;
}

void StepCounting::count_attention() {
  const bool flash = is_fused(r.attention);
  const double attended = r.attended / r.seq;
  const double recomputed = selective ? 1 : full;
  // Plans have the fused backward, which recomputes the scores: 5 products instead of 2.
  const double flops =
      flash ? (1 + full) * forward.padded + backward.padded : (3 + recomputed) * forward.unmasked;
  (flash ? c.attention_s : c.scores_s) = samples * attended * flops /
                                         (r.attention == AttentionKernel::memory_efficient ? g.accurate_fp32()
                                          : flash                                          ? g.peak(wide)
                                                                                           : g.reached(wide));
  // Flash kernels skip what a mask hides.
  if (forward.queries > 0)
    c.keys = (flash ? forward.scores : forward.pairs) / forward.queries * attended / r.cp;
  c.usable = usable_by_flash(r);
  c.ragged = std::fmod(r.head_dim, 8) != 0 ? 1 : 0;
  c.v1 = r.attention == AttentionKernel::flash1 ? 1 : 0;
  if (flash) return;
  const bool unfused = r.attention == AttentionKernel::unfused;
  const double scores = samples * forward.pairs * bytes * (3 + recomputed);
  (unfused ? c.torch_s : c.fused_s) = scores * (unfused ? 8 : 5) / g.memory_rate;
}

void StepCounting::count_pointwise() {
  const double spread = r.sequence_parallel ? r.tp : 1;
  // Under autocast the stream is fp32; a hand-written collective copies its operand, and row-parallel
  // products add their bias after it.
  const double copies = r.tp > 1 && r.habits.own_collectives ? 8 * r.habits.tensor_traffic * 2 / 3 : 0;
  const double extra =
      (copies + (r.autocast && is_of_words(r) ? 14 : 0)) * tokens * r.hidden / spread * bytes;
  const double repeated = operators ? 1 : full;
  c.pointwise_s =
      (samples * ((1 + repeated) * forward.bytes + backward.bytes) + kFused * (3 + repeated) * extra) /
      g.memory_rate;
  // Two casts, square, mean, scale and weight pass 36 bytes of an element, a kernel 4; twice a layer.
  if (r.eager_norms) c.norms_s = 2 * (36 - 4) * tokens * r.hidden / spread * (3 + full) / g.memory_rate;
  c.compiled = r.compiled ? 1 : 0;
}

void StepCounting::count_launches() {
  c.launches = (operators ? 4 : 3 + full) / 3.0;
  if (r.asked) c.launches *= (forward.launches + backward.launches) / kOpsOfBlock;
  c.peers = r.pp > 1 ? r.tp - 1 : 0;
}

void StepCounting::count_tensor_traffic() {
  const double together = std::min(r.tp, domain_of(r));
  c.tp_calls = (1 + full) * forward.reductions + backward.reductions;
  c.tp_overlapped = r.habits.overlaps_tensor && r.sequence_parallel;
  const double sent = samples * ((1 + full) * forward.reduced + backward.reduced);
  c.tp_s = r.habits.tensor_traffic * ring_seconds(r, sent, 2, r.tp, together, c.tp_far);
  c.tp_hops = c.tp_far ? std::log2(r.tp / together) : 0;
}

void StepCounting::count_context_traffic() {  // keys and values around the ring, forward and twice backward
  bool far = false;
  const double together = std::max(1.0, std::min(r.cp, domain_of(r) / r.tp));
  const double keys = 2 * r.cp * tokens * (r.kv_heads * r.head_dim) / r.tp * bytes;
  c.cp_s = 3 * ring_seconds(r, keys, 1, r.cp, together, far);
}

void StepCounting::count_experts() {
  c.expert_width = std::min(r.hidden, r.expert_ffn) / experts.tp / arithmetic;
  c.expert_rows = experts.rows / arithmetic;
  const double rows = experts.share * tokens * r.top_k / r.tp;  // sent by a rank, each to one expert
  c.expert_traffic_s = samples * (forward.sorted + backward.sorted) / g.memory_rate;
  if (r.ep > 1) {  // dispatch and combine, forward and backward
    const double together = std::max(1.0, std::min(r.ep, domain_of(r) / experts.tp));
    c.ep_s = 4 * ring_seconds(r, rows * r.hidden * bytes, 1, r.ep, together, c.ep_far);
  }
}

/// The last stage has the vocabulary; if it holds fewer layers, others are as busy.
void StepCounting::count_ends() {
  const PartCounts on_another;
  const PartCounts& first = r.pp > 1 ? on_another : net.first;
  const auto attention = [&](const PartCounts& p) {
    return samples * (p.forward.padded + p.backward.padded);
  };
  const auto moved = [&](const PartCounts& p) { return samples * (p.forward.bytes + p.backward.bytes); };
  const double ends = (products(first, 0) + products(net.last, 0)) / g.reached(wide) +
                      (attention(first) + attention(net.last)) / g.peak(wide) +
                      (moved(first) + moved(net.last)) / g.memory_rate;
  c.vocabulary_s = ends;
  if (r.pp <= 1) return;
  const double last_layers = std::max(0.0, r.layers - (r.pp - 1) * c.layers);
  const double layer = c.gemm_s + c.expert_s;
  const double spare = (c.layers - last_layers) * (layer + c.attention_s + c.scores_s);
  c.vocabulary_s = std::max(0.0, ends - (r.short_end_stages || r.balanced_embedding ? layer : spare));
}

double StepCounting::ring_of_replicas(double dense, double of_experts, double passes) {
  bool far = false;
  const double together = replicas_together();
  const double near = std::max(1.0, std::min(experts.replicas, together / r.ep));
  const double of_divided = experts.replicas > 1 ? ring_seconds(r, of_experts * width_of_gradients, passes,
                                                                experts.replicas, near, far)
                                                 : 0;
  return of_divided + ring_seconds(r, dense * width_of_gradients, passes, replicas, together, c.dp_far);
}

void StepCounting::count_sharded() {
  c.zero3_s = ring_of_replicas(own.dense, own.experts, 3);
  c.zero3_far = c.dp_far;
  const CollectiveCounts messages = ring_counts(0, {replicas, c.dp_far ? replicas_together() : replicas}, 3);
  // Weights, biases and norms of a block.
  const double collectives = !r.habits.parameter_gathers ? 1 : r.arch == Arch::llama ? 9 : 12;
  c.zero3_wait_s =
      collectives * (messages.message_host * g.link_latency + messages.message_net * g.nic_latency);
  c.zero3_touch_s = 3 * (replicas - 1) / replicas * own.all() * width_of_gradients / g.link_rate;
  c.zero3_overlapped = r.habits.overlaps_gradients;
}

void StepCounting::count_gradients() {
  c.dp_s = ring_of_replicas(parameters_of_stage(), c.layers * own.experts, 2);
  c.dp_doublings = std::log2(replicas);
  if (!r.habits.overlaps_gradients) return;
  // A chunk's gradients are complete after the backward of the last pp micro-batches, and its weights are
  // needed by the forward of the first pp; all other chunks run meanwhile. Without chunks: one micro-batch's
  // layers.
  const double buckets = r.vpp > 1 ? r.vpp : c.layers;
  c.dp_last = 1 / buckets;
  c.dp_window = (r.vpp > 1 ? std::min(r.micro_batches(), r.pp) : 1) * (1 - c.dp_last);
}

void StepCounting::count_offload() {
  const StageMemory kept = count_memory(r).stages[0];
  c.offload_s = r.offloaded_layers * 2 * (kept.stream + kept.attention + kept.ffn + kept.exact) / g.host_rate;
}

void StepCounting::count_transfers() {
  const bool far = r.gpus > domain_of(r);
  c.pp_calls = 2 * r.vpp;
  c.pp_s = c.pp_calls * tokens * r.hidden * bytes / r.tp / (far ? nic_rate_of(r) : g.link_rate);
  c.pp_waits = r.habits.overlaps_pipeline && r.vpp > 1 ? 0 : 1;
}

void StepCounting::count_fill() {
  const double bubble = bubble_of(r);
  c.fill = (r.pp - 1) / r.vpp * bubble;
  // Weight gradients, a third of a slot, fill the wait for a forward and an input gradient of all other
  // stages: one for each micro-batch.
  if (bubble < 1) c.fill = std::max(c.fill, (2 * (r.pp - 1) - (c.micro_batches - 1)) / 3);
}

/// Adam: gradient, master weight and two moments read, three written, in fp32, and the 2-byte weight.
void StepCounting::count_optimizer() {
  const double shards = r.zero >= 1 ? r.dp : 1, expert_shards = r.zero >= 1 ? experts.replicas : 1;
  c.optimizer_s =
      (parameters_of_stage() / shards + c.layers * own.experts / expert_shards) * 30 / g.memory_rate;
}

}  // namespace

StepCounts count_step(const PublishedRun& r) {
  return StepCounting{r}.count();
}

}  // namespace isobar::perf
