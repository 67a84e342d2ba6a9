#include "perfmodel/score/counts/step_model.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/score/counts/memory_model.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/step/collective.h"

namespace isobar::perf {
namespace {

// In the order of Price: spec, log sigma, log sigma between campaigns, effect of tuning. launch.tp varies
// most between engines, as some pipelines' hosts wait for each other; a compiler's kernels move the bytes of
// plans in 1.25 times the memory's time.
constexpr std::array<PriceInfo, kPrices> kStepInfo{{
    {"gemm", 1.08, 0.15, 0.10, -0.10},       {"gemm.low", 1.2, 0.15, 0.10, -0.15},
    {"gemm.fp4", 1.6, 0.2, 0.15, -0.15},     {"gemm.width", 60, 0.8, 0.6, 0},
    {"gemm.tokens", 200, 0.8, 0.8, 0},       {"attention", 1.9, 0.4, 0.3, -0.3},
    {"attention.keys", 200, 0.5, 0.3, 0},    {"attention.v1", 1.5, 0.3, 0.2, 0},
    {"scores", 1.4, 0.3, 0.2, -0.2},         {"ragged_heads", 2.0, 0.5, 0.3, 0},
    {"scores.torch", 1.15, 0.5, 0.4, -0.3},  {"scores.fused", 1.15, 0.5, 0.4, -0.2},
    {"pointwise", 3.7, 0.4, 0.4, -0.8},      {"norms.eager", 1.0, 0.3, 0.2, 0},
    {"compiled", 0.34, 0.3, 0.2, 0},         {"launch", 600e-6, 0.8, 0.8, -1.5},
    {"launch.tp", 100e-6, 1.0, 3.3, -1.5},   {"tp.link", 1.5, 0.4, 0.3, -0.3},
    {"tp.nic", 1.6, 0.5, 1.0, -0.3},         {"tp.exposed", 0.35, 0.6, 0.5, -0.5},
    {"tp.latency", 30e-6, 0.8, 0.6, -0.6},   {"tp.hop", 50e-6, 0.8, 2.5, -0.6},
    {"cp.link", 1.5, 0.5, 0.4, -0.5},        {"ep.link", 1.5, 0.2, 0.2, -0.2},
    {"ep.nic", 1.6, 0.3, 0.3, -0.2},         {"experts", 1.15, 0.15, 0.15, -0.1},
    {"expert.traffic", 3.4, 0.3, 0.4, -0.5}, {"expert.launch", 6e-3, 0.4, 0.8, -0.5},
    {"dp.link", 1.5, 0.5, 0.4, -0.3},        {"dp.nic", 1.6, 0.5, 0.6, -0.8},
    {"dp.latency", 200e-6, 1.0, 0.8, -0.5},  {"dp.hidden", 0.4, 0.7, 0.6, 0.5},
    {"pp.link", 2.0, 0.6, 0.5, -0.3},        {"pp.latency", 100e-6, 1.0, 1.0, -1.0},
    {"zero3.link", 1.5, 0.5, 0.4, -0.3},     {"zero3.nic", 1.2, 0.25, 0.8, -0.3},
    {"zero3.latency", 2.0, 0.5, 1.0, -0.3},  {"zero3.exposed", 0.1, 0.8, 0.6, -0.8},
    {"offload", 0.15, 0.8, 0.6, -0.5},       {"optimizer", 1.15, 0.4, 0.4, -0.5},
    {"vocabulary", 1.0, 0.3, 0.2, -0.2},     {"fill", 1.0, 0.15, 0.1, -0.1},
    {"micro", 1e-3, 1.0, 1.0, -1.0},         {"step", 10e-3, 1.0, 1.0, -1.0},
    {"straggler", 0.005, 0.8, 1.2, -0.8},
}};

constexpr double kA100Arithmetic = 248;  // FLOP while a byte is read, in bf16: sizes are given as on an A100

constexpr double kFused = 0.4;  // bytes that kernels of plans move relative to one kernel an operation

constexpr double kOpsOfBlock = 26;  // of a Llama's, by which launches are priced

constexpr double kSharp = 4;  // sharpness of the maximum of two concurrent activities
double longer(double a, double b) {
  if (b <= 0) return a;
  if (a <= 0) return b;
  const double hi = std::max(a, b), q = std::min(a, b) / hi, q2 = q * q;
  static_assert(kSharp == 4);
  return hi * std::sqrt(std::sqrt(1 + q2 * q2));
}

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

}  // namespace

const PriceInfo& info_of(Price p) {
  return kStepInfo[index_of(p)];
}

Prices spec_prices() {
  Prices p{};
  for (size_t i = 0; i < kPrices; ++i) p[i] = kStepInfo[i].spec;
  return p;
}

double stage_layers(const PublishedRun& r) {
  if (r.pp <= 1) return r.layers;
  if (r.short_end_stages) return std::ceil((r.layers + 2) / r.pp);
  if (r.balanced_embedding) return std::max(1.0, std::ceil((r.layers + 2) / r.pp));
  return std::max(1.0, std::ceil(r.layers / r.pp));
}

/// Share of the peak that flash kernels can use: those for Ampere (FlashAttention-2: 200 of an A100's 312
/// TFLOP/s) reach half as large a share on Hopper (335 of 989; Dao 2023).
double usable_by_flash(const PublishedRun& r) {
  constexpr double kOldOnNew = 0.53;
  return is_after_flash(*r.gpu) && !r.habits.hopper_attention ? kOldOnNew : 1;
}

StepCounts count_step(const PublishedRun& r) {
  StepCounts c;
  const ChipSpec& g = *r.gpu;
  const double T = r.micro_batch * r.seq / r.cp;  // tokens of a rank's micro-batch
  const double kv = r.kv_heads * r.head_dim;
  const NetCounts& net = count_net(r);
  const PassCounts &forward = net.block.forward, &backward = net.block.backward;
  const double samples = r.micro_batch / r.cp / net.samples;
  const PlacedExperts experts = experts_of(r);
  const double full = r.recompute == Recompute::full ? r.recomputed : 0;  // share of the layers
  const bool selective = r.recompute == Recompute::selective;
  // Frozen weights need no weight gradients. If every second product's result is kept, the others are
  // recomputed, a good third of a block's, and all pointwise work.
  const bool operators = selective && r.habits.selective_operators;
  const double again = operators ? 0.37 : full;
  const double bytes = r.precision == Precision::fp32 || r.precision == Precision::tf32 ? 4 : 2;
  const Precision wide = std::min(r.precision, Precision::bf16);

  c.layers = stage_layers(r);
  c.low = r.precision > Precision::bf16 && g.peak(r.precision) > g.peak(Precision::bf16) ? 1 : 0;
  c.fp4 = r.precision == Precision::fp4 && g.fp4 > 0 ? 1 : 0;
  const double peak = g.peak(r.precision);
  const double rate = g.reached(r.precision);
  const double frozen = r.frozen_weights ? 1 : 0;
  const auto products = [&](const PartCounts& part, double repeated) {
    return samples * ((1 + repeated) * part.forward.products + part.backward.products -
                      frozen * part.backward.weight_gradients);
  };
  const double expert_flops = samples * ((1 + again) * forward.experts + backward.experts -
                                         frozen * backward.expert_weight_gradients);
  c.gemm_s = products(net.block, again) / rate;
  // Roofline: a product's operands take as long as its arithmetic at sizes proportional to this.
  const double operand = r.precision == Precision::fp4 ? 0.5 : r.precision == Precision::fp8 ? 1 : bytes;
  const double arithmetic = rate * operand / g.memory_rate / kA100Arithmetic;
  c.width = forward.products / forward.per_width / arithmetic;
  c.tokens = samples * forward.products / forward.per_row / arithmetic;
  c.expert_layers = experts.share;
  c.expert_s = expert_flops / rate;

  const bool flash = is_fused(r.attention);
  const double attended = r.attended / r.seq;
  // Plans have the fused backward, which recomputes the scores: 5 products instead of 2.
  const double score_flops =
      flash ? (1 + full) * forward.padded + backward.padded : (3 + (selective ? 1 : full)) * forward.unmasked;
  (flash ? c.attention_s : c.scores_s) = samples * attended * score_flops /
                                         (r.attention == AttentionKernel::memory_efficient ? g.accurate_fp32()
                                          : flash                                          ? g.peak(wide)
                                                                                           : g.reached(wide));
  // Flash kernels skip what a mask hides.
  if (forward.queries > 0)
    c.keys = (flash ? forward.scores : forward.pairs) / forward.queries * attended / r.cp;
  c.usable = usable_by_flash(r);
  c.ragged = std::fmod(r.head_dim, 8) != 0 ? 1 : 0;
  c.v1 = r.attention == AttentionKernel::flash1 ? 1 : 0;
  if (!flash) {
    const double scores = samples * forward.pairs * bytes * (3 + (selective ? 1 : full));
    (r.attention == AttentionKernel::unfused ? c.torch_s : c.fused_s) =
        scores * (r.attention == AttentionKernel::unfused ? 8 : 5) / g.memory_rate;
  }
  const double spread = r.sequence_parallel ? r.tp : 1;
  // Under autocast the stream is fp32; a hand-written collective copies its operand, and row-parallel
  // products add their bias after it.
  const double copies = r.tp > 1 && r.habits.own_collectives ? 8 * r.habits.tensor_traffic * 2 / 3 : 0;
  const double extra = (copies + (r.autocast && is_of_words(r) ? 14 : 0)) * T * r.hidden / spread * bytes;
  const double repeated = operators ? 1 : full;
  c.pointwise_s =
      (samples * ((1 + repeated) * forward.bytes + backward.bytes) + kFused * (3 + repeated) * extra) /
      g.memory_rate;
  // Two casts, square, mean, scale and weight pass 36 bytes of an element, a kernel 4; twice a layer.
  if (r.eager_norms) c.norms_s = 2 * (36 - 4) * T * r.hidden / spread * (3 + full) / g.memory_rate;
  c.compiled = r.compiled ? 1 : 0;
  c.launches = (operators ? 4 : 3 + full) / 3.0;
  if (r.asked) c.launches *= (forward.launches + backward.launches) / kOpsOfBlock;
  c.peers = r.pp > 1 ? r.tp - 1 : 0;

  if (r.tp > 1) {
    const double together = std::min(r.tp, domain_of(r));
    c.tp_calls = (1 + full) * forward.reductions + backward.reductions;
    c.tp_overlapped = r.habits.overlaps_tensor && r.sequence_parallel;
    const double sent = samples * ((1 + full) * forward.reduced + backward.reduced);
    c.tp_s = r.habits.tensor_traffic * ring_seconds(r, sent, 2, r.tp, together, c.tp_far);
    c.tp_hops = c.tp_far ? std::log2(r.tp / together) : 0;
  }
  if (r.cp > 1) {  // keys and values around the ring, forward and twice backward
    bool far = false;
    const double together = std::max(1.0, std::min(r.cp, domain_of(r) / r.tp));
    c.cp_s = 3 * ring_seconds(r, 2 * r.cp * T * kv / r.tp * bytes, 1, r.cp, together, far);
  }
  if (r.experts > 0) {
    c.expert_width = std::min(r.hidden, r.expert_ffn) / experts.tp / arithmetic;
    c.expert_rows = experts.rows / arithmetic;
    const double rows = experts.share * T * r.top_k / r.tp;  // sent by a rank, each to one expert
    c.expert_traffic_s = samples * (forward.sorted + backward.sorted) / g.memory_rate;
    if (r.ep > 1) {  // dispatch and combine, forward and backward
      const double together = std::max(1.0, std::min(r.ep, domain_of(r) / experts.tp));
      c.ep_s = 4 * ring_seconds(r, rows * r.hidden * bytes, 1, r.ep, together, c.ep_far);
    }
  }

  const PartCounts no_first;
  const PartCounts& first = r.pp > 1 ? no_first : net.first;  // on another stage
  const auto attention = [&](const PartCounts& part) {
    return samples * (part.forward.padded + part.backward.padded);
  };
  const double head_flops = products(first, 0) + products(net.last, 0);
  const auto bytes_of = [&](const PartCounts& part) {
    return samples * (part.forward.bytes + part.backward.bytes);
  };
  const double head_s = head_flops / g.reached(wide) +
                        (attention(first) + attention(net.last)) / g.peak(wide) +
                        (bytes_of(first) + bytes_of(net.last)) / g.memory_rate;
  // The last stage has the vocabulary; if it holds fewer layers, others are as busy.
  const double last_layers = r.layers - (r.pp - 1) * c.layers;
  c.vocabulary_s = head_s;
  if (r.pp > 1) {
    const double products = c.gemm_s + c.expert_s;
    const double spare = (c.layers - std::max(0.0, last_layers)) * (products + c.attention_s + c.scores_s);
    c.vocabulary_s = std::max(0.0, head_s - (r.short_end_stages || r.balanced_embedding ? products : spare));
  }

  const OwnParameters own = own_parameters(r);
  const double stage_parameters =
      c.layers * own.dense +
      (r.pp > 1 ? std::max(net.first.dense, net.last.dense + net.tied) : net.first.dense + net.last.dense);
  const double stage_experts = c.layers * own.experts;
  // Ranks of a data-parallel group on one node.
  const double together = std::max(1.0, std::min(r.dp * r.cp, domain_of(r) / r.tp));
  const double replicas = r.dp * r.cp;
  const auto ring = [&](double dense, double of_experts, double passes) {
    const double width = r.autocast ? 4 : bytes;  // autocast's parameters and gradients are fp32
    bool far = false;
    const double near = std::max(1.0, std::min(experts.replicas, together / r.ep));
    const double s =
        experts.replicas > 1 ? ring_seconds(r, of_experts * width, passes, experts.replicas, near, far) : 0;
    return s + ring_seconds(r, dense * width, passes, replicas, together, c.dp_far);
  };
  const bool fsdp = r.zero >= 3;
  if (replicas > 1 && !r.frozen_weights) {
    if (fsdp) {
      c.zero3_s = ring(own.dense, own.experts, 3);
      const CollectiveCounts messages = ring_counts(0, {replicas, c.dp_far ? together : replicas}, 3);
      // Weights, biases and norms of a block.
      const double collectives = !r.habits.parameter_gathers ? 1 : r.arch == Arch::llama ? 9 : 12;
      c.zero3_wait_s =
          collectives * (messages.message_host * g.link_latency + messages.message_net * g.nic_latency);
      c.zero3_far = c.dp_far;
      c.zero3_touch_s = 3 * (replicas - 1) / replicas * own.all() * (r.autocast ? 4 : bytes) / g.link_rate;
      c.zero3_overlapped = r.habits.overlaps_gradients;
    } else {
      c.dp_s = ring(stage_parameters, stage_experts, 2);
      c.dp_doublings = std::log2(replicas);
      if (r.habits.overlaps_gradients) {
        // A chunk's gradients are complete after the backward of the last pp micro-batches, and its weights
        // are needed by the forward of the first pp; all other chunks run meanwhile. Without chunks: one
        // micro-batch's layers.
        const double buckets = r.vpp > 1 ? r.vpp : c.layers;
        c.dp_last = 1 / buckets;
        c.dp_window = (r.vpp > 1 ? std::min(r.micro_batches(), r.pp) : 1) * (1 - c.dp_last);
      }
    }
  }
  if (r.offloaded_layers > 0) {
    const StageMemory kept = count_memory(r).stages[0];
    c.offload_s =
        r.offloaded_layers * 2 * (kept.stream + kept.attention + kept.ffn + kept.exact) / g.host_rate;
  }
  if (r.pp > 1) {
    const bool far = r.gpus > domain_of(r);
    c.pp_calls = 2 * r.vpp;
    c.pp_s = c.pp_calls * T * r.hidden * bytes / r.tp / (far ? nic_rate_of(r) : g.link_rate);
    c.pp_waits = r.habits.overlaps_pipeline && r.vpp > 1 ? 0 : 1;
  }
  c.micro_batches = r.micro_batches();
  // The share of p - 1 slots that stays idle. ZB-2p's stages end in the order in which they began (Qi 2024);
  // a common end adds a wait.
  const double bubble = r.schedule == Schedule::zb_1p   ? 0.4
                        : r.schedule != Schedule::zb_2p ? 1
                        : r.stages_together             ? 1.0 / 3
                                                        : 0.02;
  c.fill = (r.pp - 1) / r.vpp * bubble;
  // Weight gradients, a third of a slot, fill the wait for a forward and an input gradient of all other
  // stages: one for each micro-batch.
  if (bubble < 1) c.fill = std::max(c.fill, (2 * (r.pp - 1) - (c.micro_batches - 1)) / 3);
  const double shards = r.zero >= 1 ? r.dp : 1;
  // Adam: gradient, master weight and two moments read, three written, in fp32, and the 2-byte weight.
  const double expert_shards = r.zero >= 1 ? experts.replicas : 1;
  c.optimizer_s =
      r.frozen_weights ? 0 : (stage_parameters / shards + stage_experts / expert_shards) * 30 / g.memory_rate;
  c.gpu_doublings = std::log2(r.gpus);
  c.ceiling_s = ((products(net.block, again) + expert_flops) * r.layers / r.pp + head_flops / r.pp) / peak *
                c.micro_batches;
  return c;
}

namespace {

double device_seconds(const StepCounts& c, const Prices& price) {
  const auto p = [&](Price x) { return price[index_of(x)]; };
  const auto shape = [&](double width, double rows) {
    return (1 + p(Price::gemm_width) / width) * (1 + p(Price::gemm_tokens) / rows);
  };
  const double gemm =
      p(Price::gemm) * (c.low > 0 ? p(Price::gemm_low) : 1) * (c.fp4 > 0 ? p(Price::gemm_fp4) : 1);
  return c.gemm_s * gemm * shape(c.width, c.tokens) +
         c.expert_s * gemm * p(Price::experts) * shape(c.expert_width, c.expert_rows) +
         c.expert_traffic_s * p(Price::expert_traffic) +
         c.attention_s / c.usable * p(Price::attention) * (1 + p(Price::attention_keys) / c.keys) *
             (c.v1 > 0 ? p(Price::attention_v1) : 1) +
         c.scores_s * p(Price::scores) * (c.ragged > 0 ? p(Price::ragged_heads) : 1) +
         c.torch_s * p(Price::scores_torch) + c.fused_s * p(Price::scores_fused) +
         c.pointwise_s * p(Price::pointwise) * (c.compiled > 0 ? p(Price::compiled) : 1) +
         c.norms_s * p(Price::norms_eager);
}

double host_seconds(const StepCounts& c, const Prices& price) {
  return c.launches * (price[index_of(Price::launch)] + c.peers * price[index_of(Price::launch_tp)] +
                       c.expert_layers * price[index_of(Price::expert_launch)]);
}

}  // namespace

double device_floor(const StepCounts& c) {
  Prices spec;
  spec.fill(1);
  for (const Price size : {Price::gemm_width, Price::gemm_tokens, Price::attention_keys})
    spec[index_of(size)] = 0;
  const double layer = device_seconds(c, spec) + (c.tp_far ? 0 : c.tp_s);
  return (c.layers * layer + c.vocabulary_s) * (c.micro_batches + c.fill) + c.optimizer_s;
}

double busy(const StepCounts& c, const Prices& price) {
  return device_seconds(c, price) / host_seconds(c, price);
}

double step_seconds(const StepCounts& c, const Prices& price) {
  const auto p = [&](Price x) { return price[index_of(x)]; };
  double layer = longer(device_seconds(c, price), host_seconds(c, price));
  layer += (c.tp_overlapped ? p(Price::tp_exposed) : 1) *
           (c.tp_s * p(c.tp_far ? Price::tp_nic : Price::tp_link) + c.tp_calls * p(Price::tp_latency) +
            c.tp_calls * c.tp_hops * p(Price::tp_hop));
  layer += c.cp_s * p(Price::cp_link) + c.ep_s * p(c.ep_far ? Price::ep_nic : Price::ep_link);
  if (c.zero3_s > 0) {
    const double traffic = c.zero3_s * p(c.zero3_far ? Price::zero3_nic : Price::zero3_link) +
                           c.zero3_wait_s * p(Price::zero3_latency);
    // Hidden traffic still takes memory bandwidth and processors, by its bytes, however slow the network is.
    const double touch = p(Price::zero3_exposed) * p(Price::zero3_link) * c.zero3_touch_s;
    layer = c.zero3_overlapped ? longer(layer, traffic) + touch : layer + traffic;
  }
  const double micro = c.layers * layer + c.vocabulary_s * p(Price::vocabulary) * p(Price::gemm) +
                       c.offload_s * p(Price::offload) + p(Price::micro);
  const double transfers = c.pp_s * p(Price::pp_link) + c.pp_calls * p(Price::pp_latency);
  const double fill = c.fill * p(Price::fill);
  const double pipeline =
      micro * (c.micro_batches + fill) + transfers * (c.pp_waits * c.micro_batches + fill);
  const double gradients =
      c.dp_s * p(c.dp_far ? Price::dp_nic : Price::dp_link) + c.dp_doublings * p(Price::dp_latency);
  // Hidden within the window; smooth, for the fit.
  const double late = gradients * (1 - c.dp_last) - c.dp_window * micro * p(Price::dp_hidden);
  const double exposed =
      gradients * c.dp_last + 0.5 * (late + std::hypot(late, 0.3 * gradients * (1 - c.dp_last)));
  const double step = pipeline + exposed + c.optimizer_s * p(Price::optimizer) + p(Price::step);
  return step * (1 + p(Price::straggler) * c.gpu_doublings);
}

const Quantity kStepSeconds{
    kPrices, kStepInfo.data(), 0.08, 2, 0.15, [](const Sample& s, const double* prices) {
      Prices p;
      std::copy_n(prices, kPrices, p.begin());
      return std::log(step_seconds(s.counts, p));
    }};

}  // namespace isobar::perf
