#include "perfmodel/machine/machine.h"

#include <algorithm>

#include "model/nets/layout/device_memory.h"

namespace isobar::perf {
namespace {

// Defaults before any measurement: what a core reaches of its peak, and small costs. Most log sigmas are a
// factor of two either way.
struct Default {
  double value, log_sigma;
};

Default default_of(Coef c, const Identity& id, const std::map<std::string, Peak>& peaks) {
  const double f32 = peaks.at("f32").value, bf16 = peaks.at("bf16").value;
  const double host = peaks.at("memory").value;
  const double cores = static_cast<double>(std::max<int64_t>(id.cores, 1));
  const double core = std::min(host, std::max(12e9, host / cores));  // B/s of one core
  switch (c) {
    case Coef::gemm_f32:
      return {1 / (0.65 * f32), 0.4};
    case Coef::gemm_tf32:
      return {1 / (0.5 * peaks.at("tf32").value), 0.6};
    case Coef::gemm_bf16:
      return {1 / (0.5 * bf16), 0.6};
    case Coef::gemm_fp8:
      return {1 / (0.5 * peaks.at("fp8").value), 0.6};
    // With heads of 48 a quarter is the softmax: 0.3 (forward) and 0.25 (backward) of the peak in all.
    case Coef::attention_f32:
    case Coef::attention_tf32:  // emulated
      return {1 / (0.4 * f32), 0.6};
    case Coef::attention_bf16:
      return {1 / (0.3 * bf16), 0.8};
    case Coef::attention_backward_f32:
    case Coef::attention_backward_tf32:
      return {1 / (0.33 * f32), 0.6};
    case Coef::attention_backward_bf16:
      return {1 / (0.22 * bf16), 0.8};
    case Coef::softmax_f32:
      return {160 / f32, 0.8};
    case Coef::softmax_backward_f32:
      return {480 / f32, 0.8};
    case Coef::softmax_bf16:  // the same vectors, next to other products
      return {120 / f32, 0.9};
    case Coef::softmax_backward_bf16:
      return {360 / f32, 0.9};
    case Coef::norm:
    case Coef::reduction:
    case Coef::copy:
    case Coef::optimizer:
    case Coef::attention_bytes:
      return {1 / core, 0.6};
    case Coef::copy_host:  // only host memory is involved
      return {2 / core, 0.6};
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
    // Ops fill the step; the rest is the loop around them and, between hosts, other losses of each step.
    case Coef::step:
      return {1e-4, 1.5};
    case Coef::read_noise:
    case Coef::read_hdf5:
      return {1e-9, 0.8};
    case Coef::read_netcdf:
      return {2e-9, 0.8};
    case Coef::read_zarr:  // a file to open for each chunk
      return {1e-9, 0.8};
    case Coef::read_decode:  // of delivered bytes; lz4 takes a third of zstd's time
      return {1e-9, 1.0};
    case Coef::read_sample:
      return {1e-4, 1.0};
    case Coef::read_table:  // rows in random order: a cache miss for every 64 bytes
      return {1e-9, 0.8};
    case Coef::read_row:
      return {5e-8, 0.8};
    case Coef::read_handover:  // two threads wake each other
      return {1e-5, 0.8};
    case Coef::host_op:  // cores launch their own work
    case Coef::collective_call:
      return {1e-9, 0.8};
    case Coef::sum_host:  // MPI's loops over two operands and a result
      return {12 / core, 0.8};
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
    case Coef::lockstep:
      return {0.02, 0.8};
    case Coef::commit:  // seven fsyncs in sequence, of 1 ms (flash) to 10 ms (disk)
      return {2e-2, 1.0};
    case Coef::checkpoint:  // a local disk, synced: 0.1 GB/s (cloud volume) to 2 GB/s (NVMe)
      return {1 / 5e8, 1.0};
    case Coef::process:
      return {1.2e8, 0.4};
  }
  return {1, 1};
}

// Log sigma of the share of a spec sheet's peak that large products reach, if unmeasured: root mean square
// error, each vendor counted once, of the shares below on the measured chips of configs/machines
// (tests/perfmodel/machine/unmeasured_test.cpp).
constexpr double kUnmeasuredProducts = 0.39;

// Defaults of an accelerator. Products: large ones in published micro-benchmarks (GEMM counts are already
// rounded up to whole waves of tiles, terms.h). Memory-bound kernels, attention and links: whole steps of
// published runs of tuned engines, on A100 to GB200 (tests/import/shipped_machines_test.cpp). Launches: a
// Python framework without graphs.
Default default_of(Coef c, const Accelerator& a, const std::map<std::string, Peak>& peaks) {
  const double memory = peaks.at("memory").value, bf16 = peaks.at("bf16").value;
  const double f32 = peaks.at("f32").value, tf32 = peaks.at("tf32").value;
  switch (c) {
    case Coef::gemm_f32:
      return {1 / (0.85 * peaks.at("f32").value), kUnmeasuredProducts};
    case Coef::gemm_tf32:
      return {1 / (0.75 * peaks.at("tf32").value), kUnmeasuredProducts};
    case Coef::gemm_bf16:
      return {1 / (0.78 * bf16), kUnmeasuredProducts};
    case Coef::gemm_fp8:
      return {1 / (0.65 * peaks.at("fp8").value), kUnmeasuredProducts};
    case Coef::attention_f32:
      return {1 / (0.7 * peaks.at("f32").value), 0.4};
    // Our own kernels on the tensor cores' synchronous instructions: assumed shares of the peak, hence the
    // wide sigma. Without such units: f32's.
    case Coef::attention_tf32:
      return {1 / std::max(0.3 * tf32, 0.7 * f32), 0.5};
    case Coef::attention_backward_tf32:
      return {1 / std::max(0.2 * tf32, 0.5 * f32), 0.5};
    case Coef::attention_bf16:
      return {1 / (0.45 * bf16), 0.3};
    case Coef::attention_backward_f32:
      return {1 / (0.5 * peaks.at("f32").value), 0.4};
    case Coef::attention_backward_bf16:
      return {1 / (0.33 * bf16), 0.3};
    case Coef::norm:
    case Coef::gelu:
    case Coef::reduction:
    case Coef::copy:
    case Coef::loss:
    case Coef::optimizer:
      return {1.8 / memory, 0.35};
    case Coef::copy_host:  // PCIe 4 x16: 32 GB/s, of which copies reach four fifths
      return {1 / 25e9, 0.5};
    case Coef::vector:
      return {0.1 / peaks.at("f32").value, 0.8};
    case Coef::gemm_bytes:  // mostly hidden under arithmetic
      return {0.25 / memory, 0.5};
    case Coef::spill:
      return {1e-4 / memory, 0.8};
    case Coef::gemm_call:
    case Coef::op:
      return {2e-6, 0.5};
    case Coef::host_op:
      return {8e-6, 0.5};
    case Coef::step:
      return {3e-3, 1.0};
    case Coef::message_host:
      return {a.host.latency, 0.5};
    case Coef::wire_host:
      return {1 / (0.7 * a.host.of_rank()), 0.25};
    case Coef::message_net:
      return {a.net.latency, 0.5};
    case Coef::wire_net:
      return {1 / (0.75 * a.net.of_rank()), 0.3};
    case Coef::collective_call:
      return {8e-6, 0.5};
    case Coef::share_compute:  // accelerators share only links
    case Coef::share_memory:
    case Coef::threads_serial:
    case Coef::lockstep:  // waits in collectives are part of their prices
      return {1e-9, 0.8};
    case Coef::overlap_slowdown:
      return {0.2, 0.6};
    case Coef::imbalance:
      return {0.005, 0.3};
    case Coef::commit:  // as many round trips to a parallel file system's metadata servers
      return {1e-1, 1.0};
    case Coef::checkpoint:  // one node's share of a parallel file system
      return {1 / 5e9, 0.8};
    case Coef::process:
      return {nets::kGpuProcessBytes, 0.3};
    default:
      return {1e-9, 1};
  }
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
  const CoefficientInfo& info = info_of(coef);
  if (!info.peak) return 0;
  // Attention in fp32 may be three products in TF32.
  const bool in_three = info.family == std::string_view("attention") && info.peak == std::string_view("f32");
  return 1 / std::max(peaks.at(info.peak).value, in_three ? peaks.at("tf32").value / 3 : 0);
}

Machine machine_from_spec(const std::string& name, const Identity& identity,
                          const std::map<std::string, Peak>& peaks,
                          const std::optional<Accelerator>& accelerator) {
  Machine m;
  m.name = name;
  m.identity = identity;
  m.peaks = peaks;
  m.accelerator = accelerator;
  // Without units of their own, these types run as the next wider one.
  m.peaks.try_emplace("tf32", Peak{peaks.at("f32").value, {"that of f32"}});
  m.peaks.try_emplace("fp8", Peak{peaks.at("bf16").value, {"that of bf16"}});
  for (size_t i = 0; i < kCoefs; ++i) {
    const auto c = static_cast<Coef>(i);
    const bool by_host = !accelerator || info_of(c).resource == Resource::read;  // hosts read for any device
    const Default d = by_host ? default_of(c, identity, m.peaks) : default_of(c, *accelerator, m.peaks);
    m.coefficients[i] = Coefficient::make(d.value, d.log_sigma, {"spec"});
  }
  return m;
}

}  // namespace isobar::perf
