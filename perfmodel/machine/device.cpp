#include "perfmodel/machine/device.h"

#include <limits>

#include "model/base/error.h"

namespace isobar::perf {

const char* name_of(Device d) {
  return d == Device::cores ? "cores" : "accelerators";
}

Device device_of(const Machine& m) {
  return m.accelerator ? Device::accelerator : Device::cores;
}

Device device_of(const RunSpec& spec, const Machine& m) {
  const Device there = device_of(m);
  const RunDevice device = spec.run.device;
  const std::string machine = m.file.empty() ? "the machine" : m.file;
  if (device == RunDevice::cpu && there == Device::accelerator)
    throw ConfigError(spec.file, "run.device",
                      "is cpu, and " + machine + " describes accelerators (" + m.accelerator->name +
                          "), not the cores beside them",
                      "set run.device: cuda, or name a machine file of the hosts' cores (isobar calibrate)");
  if (device == RunDevice::cuda && there == Device::cores)
    throw ConfigError(spec.file, "run.device",
                      "is cuda, and " + machine + " describes a host's cores, no accelerator",
                      "set run.device: cpu, or name a machine file with `accelerator:`");
  return there;
}

std::string prediction_only(const Machine& m) {
  if (!m.accelerator || m.accelerator->vendor == "nvidia") return "";
  if (m.accelerator->vendor.empty())
    return "prediction only: the machine file does not say whose accelerators these are "
           "(accelerator.vendor), and Isobar trains on NVIDIA's and on CPUs";
  return "prediction only: Isobar trains on NVIDIA GPUs and on CPUs, not on " + m.accelerator->name;
}

void require_trainable(const Machine& m) {
  if (prediction_only(m).empty()) return;
  const Accelerator& a = *m.accelerator;
  throw ConfigError(m.file, a.vendor.empty() ? "accelerator.vendor" : "accelerator",
                    a.vendor.empty() ? "is missing: nothing says that Isobar's engine runs on " + a.name
                                     : a.name + " can be predicted, and Isobar's engine does not run on it",
                    a.vendor.empty()
                        ? "give vendor: nvidia if it does; it runs on NVIDIA GPUs and on CPUs"
                        : "take a machine file of NVIDIA GPUs or of cores; `isobar predict` takes this one");
}

double memory_of_rank(const Machine& m, int64_t ranks_on_host) {
  return m.accelerator ? static_cast<double>(m.accelerator->capacity())
                       : static_cast<double>(m.identity.memory_bytes) / static_cast<double>(ranks_on_host);
}

double cache_share(const Machine& m, int64_t ranks_on_host) {
  return static_cast<double>(m.identity.cache_bytes) / static_cast<double>(ranks_on_host);
}

double cache_of_rank(const Machine& m, int64_t ranks_on_host) {
  return m.accelerator ? std::numeric_limits<double>::infinity() : cache_share(m, ranks_on_host);
}

nets::DeviceRoom room_of(const Machine& m) {
  const bool nccl = m.accelerator && m.accelerator->vendor == "nvidia";
  return {.bytes = memory_of_rank(m, 1),
          .process = m[Coef::process].value,
          .nccl_channels = nccl ? kNcclChannels : 0};
}

std::string peak_of(const RunSpec& spec) {
  const Amp amp = spec.policy.amp;
  switch (amp) {
    case Amp::none:
      return "f32";
    case Amp::fp16:
      return "bf16";
    case Amp::mxfp8:
      return "fp8";
    case Amp::nvfp4:
      return "fp4";
    default:
      return name_of(amp);
  }
}

Coef gemm_of(const RunSpec& spec) {
  const std::string peak = peak_of(spec);
  return peak == "f32"    ? Coef::gemm_f32
         : peak == "tf32" ? Coef::gemm_tf32
         : peak == "fp8"  ? Coef::gemm_fp8
                          : Coef::gemm_bf16;
}

}  // namespace isobar::perf
