#include "perfmodel/score/counts/step_model.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/score/prices/campaign_fit.h"

namespace isobar::perf {
namespace {

// In the order of Price: spec, log sigma, log sigma between campaigns, effect of tuning. launch.tp varies
// most between engines, as some pipelines' hosts wait for each other; a compiler's kernels move the bytes of
// plans in 1.5 times the memory's time.
constexpr std::array<PriceInfo, kPrices> kStepInfo{{
    {"gemm", 1.066, 0.15, 0.10, -0.10},      {"gemm.low", 1.2, 0.15, 0.10, -0.15},
    {"gemm.fp4", 1.6, 0.2, 0.15, -0.15},     {"gemm.width", 34, 0.8, 0.6, 0},
    {"gemm.tokens", 175, 0.8, 0.8, 0},       {"attention", 1.9, 0.4, 0.3, -0.3},
    {"attention.keys", 200, 0.5, 0.3, 0},    {"attention.v1", 1.5, 0.3, 0.2, 0},
    {"scores", 1.4, 0.3, 0.2, -0.2},         {"ragged_heads", 2.0, 0.5, 0.3, 0},
    {"scores.torch", 1.15, 0.5, 0.4, -0.3},  {"scores.fused", 1.15, 0.5, 0.4, -0.2},
    {"pointwise", 3.7, 0.4, 0.4, -0.8},      {"norms.eager", 1.0, 0.3, 0.2, 0},
    {"compiled", 0.415, 0.3, 0.2, 0},        {"launch", 600e-6, 0.8, 0.8, -1.5},
    {"launch.tp", 100e-6, 1.0, 3.3, -1.5},   {"tp.link", 1.5, 0.4, 0.3, -0.3},
    {"tp.nic", 2.2, 0.5, 1.0, -0.3},         {"tp.exposed", 0.42, 0.6, 0.5, -0.5},
    {"tp.latency", 30e-6, 0.8, 0.6, -0.6},   {"tp.hop", 50e-6, 0.8, 2.5, -0.6},
    {"cp.link", 1.5, 0.5, 0.4, -0.5},        {"ep.link", 1.5, 0.2, 0.2, -0.2},
    {"ep.nic", 1.6, 0.3, 0.3, -0.2},         {"experts", 1.15, 0.15, 0.15, -0.1},
    {"expert.traffic", 3.4, 0.3, 0.4, -0.5}, {"expert.launch", 6e-3, 0.4, 0.8, -0.5},
    {"dp.link", 1.5, 0.5, 0.4, -0.3},        {"dp.nic", 1.6, 0.5, 0.6, -0.8},
    {"dp.latency", 200e-6, 1.0, 0.8, -0.5},  {"dp.hidden", 0.4, 0.7, 0.6, 0.5},
    {"pp.link", 2.0, 0.6, 0.5, -0.3},        {"pp.latency", 100e-6, 1.0, 1.0, -1.0},
    {"zero3.link", 1.5, 0.5, 0.4, -0.3},     {"zero3.nic", 1.2, 0.25, 0.8, -0.3},
    {"zero3.latency", 2.0, 0.5, 1.0, -0.3},  {"zero3.exposed", 0.04, 0.8, 0.6, -0.8},
    {"offload", 0.15, 0.8, 0.6, -0.5},       {"optimizer", 1.15, 0.4, 0.4, -0.5},
    {"vocabulary", 1.0, 0.3, 0.2, -0.2},     {"fill", 1.0, 0.15, 0.1, -0.1},
    {"micro", 1e-3, 1.0, 1.0, -1.0},         {"step", 10e-3, 1.0, 1.0, -1.0},
    {"straggler", 0.005, 0.8, 1.2, -0.8},
}};

constexpr double kSharp = 4;  // sharpness of the maximum of two concurrent activities
double longer(double a, double b) {
  if (b <= 0) return a;
  if (a <= 0) return b;
  const double hi = std::max(a, b), q = std::min(a, b) / hi, q2 = q * q;
  static_assert(kSharp == 4);
  return hi * std::sqrt(std::sqrt(1 + q2 * q2));
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
