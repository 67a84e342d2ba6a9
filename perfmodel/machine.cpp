#include "perfmodel/machine.h"

#include <algorithm>

namespace isobar {
namespace {

// What a core reaches of its peak, and what small things cost, before anything was measured. Log sigmas say
// how little is known: a factor of two either way for most.
struct Default {
  double value, log_sigma;
};

Default default_of(Coef c, const Identity& id, const std::map<std::string, Peak>& peaks) {
  const double f32 = peaks.at("f32").value, bf16 = peaks.at("bf16").value;
  const double host = peaks.at("memory").value;
  const double cores = static_cast<double>(std::max<int64_t>(id.cores, 1));
  const double core = std::min(host, std::max(12e9, host / cores));  // B/s that one core can draw
  switch (c) {
    case Coef::gemm_f32:
      return {1 / (0.65 * f32), 0.4};
    case Coef::gemm_bf16:
      return {1 / (0.5 * bf16), 0.6};
    case Coef::attention_f32:
      return {1 / (0.3 * f32), 0.6};
    case Coef::attention_bf16:
      return {1 / (0.2 * bf16), 0.8};
    case Coef::attention_backward_f32:
      return {1 / (0.25 * f32), 0.6};
    case Coef::attention_backward_bf16:
      return {1 / (0.15 * bf16), 0.8};
    case Coef::norm:
    case Coef::reduction:
    case Coef::copy:
    case Coef::optimizer:
      return {1 / core, 0.6};
    case Coef::gelu:
    case Coef::loss:
      return {1.5 / core, 0.8};
    case Coef::vector:
      return {1 / (0.25 * f32), 0.8};
    case Coef::gemm_bytes:
    case Coef::spill:
      return {0.3 / core, 0.8};
    case Coef::gemm_call:
    case Coef::op:
      return {1e-6, 0.8};
    case Coef::fork:
      return {2e-6, 0.8};
    case Coef::step:
      return {2e-4, 1.0};
    case Coef::read_noise:
    case Coef::read_hdf5:
      return {1e-9, 0.8};
    case Coef::read_netcdf:
      return {2e-9, 0.8};
    case Coef::read_sample:
      return {1e-4, 1.0};
    case Coef::message_net:
      return {2e-5, 0.8};
    case Coef::wire_net:
      return {1 / 1.25e9, 1.0};
    case Coef::message_host:
      return {5e-6, 0.8};
    case Coef::wire_host:
      return {2 / core, 0.6};
    case Coef::threads_serial:
      return {0.05, 0.8};
    case Coef::share_compute:
      return {0.15, 0.8};
    case Coef::share_memory:
      return {std::max(0.2, cores * core / host - 1), 0.7};
    case Coef::steal:
      return {1, 0.5};
    case Coef::overlap_slowdown:
      return {0.4, 0.8};
    case Coef::imbalance:
      return {0.02, 0.8};
    case Coef::process:
      return {1.2e8, 0.4};
  }
  return {1, 1};
}

}  // namespace

Coefficient Coefficient::make(double value, double log_sigma, std::vector<std::string> provenance) {
  const double width = std::exp(kNormal80 * log_sigma);
  return {value, value / width, value * width, std::move(provenance)};
}

Counts Machine::values() const {
  Counts out;
  for (size_t i = 0; i < kCoefs; ++i) out[i] = coefficients[i].value;
  return out;
}

double Machine::floor_of(size_t coef) const {
  const char* peak = info_of(coef).peak;
  return peak ? 1 / peaks.at(peak).value : 0;
}

Machine machine_from_spec(const std::string& name, const Identity& identity,
                          const std::map<std::string, Peak>& peaks) {
  Machine m;
  m.name = name;
  m.identity = identity;
  m.peaks = peaks;
  for (size_t i = 0; i < kCoefs; ++i) {
    const Default d = default_of(static_cast<Coef>(i), identity, peaks);
    m.coefficients[i] = Coefficient::make(d.value, d.log_sigma, {"spec"});
  }
  return m;
}

}  // namespace isobar
