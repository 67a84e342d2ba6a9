// What a run computes on, and whether this program can run it there: run.device of the specification beside
// what the machine file describes. Everything that prices a step asks here; nothing else compares the two.
//
//   if (device_of(spec, machine) == Device::accelerator) ...   // ConfigError where they contradict each
//   other require_trainable(machine);                                // before runs are made on it
#pragma once
#include <string>

#include "model/base/spec.h"
#include "model/nets/device_memory.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

enum class Device : uint8_t { cores, accelerator };
const char* name_of(Device d);  // "cores", "accelerators"

/// What the machine file describes.
Device device_of(const Machine& machine);
/// Of a run: run.device `auto` is what the machine has, `cpu` and `cuda` must be what it describes. Throws
/// ConfigError naming both and the mend.
Device device_of(const RunSpec& spec, const Machine& machine);

/// Why Isobar's engine cannot train there, although it can be predicted: "" where it can.
std::string prediction_only(const Machine& machine);
/// Throws ConfigError where runs cannot be made on the machine, or where nobody says that they can.
void require_trainable(const Machine& machine);

/// Bytes that one of `ranks_on_host` ranks has for itself: of its accelerator, or its part of the host.
double memory_of_rank(const Machine& machine, int64_t ranks_on_host);

/// What a rank's share of an accelerator holds, for the account of model/nets/device_memory.h.
DeviceRoom room_of(const Machine& machine);

/// The name of the peak that bounds a run's matrix products, and of the coefficient that prices them.
std::string peak_of(const RunSpec& spec);
Coef gemm_of(const RunSpec& spec);

}  // namespace isobar
