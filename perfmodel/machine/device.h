// The device that a run computes on, and whether this program can run it there, from run.device and the
// machine file. Everything that prices a step uses it.
//
//   if (device_of(spec, machine) == Device::accelerator) ...   // ConfigError if they contradict each other
//   require_trainable(machine);                                // before runs on it
#pragma once
#include <string>

#include "model/base/spec/spec.h"
#include "model/nets/layout/device_memory.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

enum class Device : uint8_t { cores, accelerator };
const char* name_of(Device d);  // "cores", "accelerators"

/// The device that the machine file describes.
Device device_of(const Machine& machine);
/// A run's device: run.device `auto` is the machine's, `cpu` and `cuda` must match it. Throws ConfigError
/// naming both and the remedy.
Device device_of(const RunSpec& spec, const Machine& machine);

/// The reason why Isobar's engine can only predict the machine, not train on it; "": it can train.
std::string prediction_only(const Machine& machine);
/// Throws ConfigError if runs cannot be made on the machine, or if that is unknown.
void require_trainable(const Machine& machine);

/// Bytes of one of `ranks_on_host` ranks: its accelerator's, or its share of the host's.
double memory_of_rank(const Machine& machine, int64_t ranks_on_host);

/// Bytes of last-level cache for one rank of a host.
double cache_share(const Machine& machine, int64_t ranks_on_host);
/// The same of a rank on the machine's device. An accelerator's is unknown, so that its operands never spill.
double cache_of_rank(const Machine& machine, int64_t ranks_on_host);

/// A rank's share of an accelerator, for model/nets/layout/device_memory.h.
nets::DeviceRoom room_of(const Machine& machine);

/// The peak that bounds a run's matrix products, and the coefficient that prices them.
std::string peak_of(const RunSpec& spec);
Coef gemm_of(const RunSpec& spec);

}  // namespace isobar::perf
