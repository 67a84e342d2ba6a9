// Accelerators of published runs, by the names that tables give them: spec-sheet rates only, nothing fitted.
// They are those of the machine files that come with Isobar (configs/machines), each by what it is `called`;
// a new chip is a new file there.
//
//   const ChipSpec* a = chip_named("A100-80GB-SXM (Selene)");   // nullptr: unknown
//   a->peak(Precision::bf16)                                               // FLOP/s, dense
#pragma once
#include <optional>
#include <string>

#include "perfmodel/machine/machine.h"

namespace isobar {

enum class Precision { fp32, tf32, bf16, fp8, fp4 };
/// bf16, fp16, fp16-amp, mxfp8, nvfp4, ... ; nullopt: a name nobody knows.
std::optional<Precision> precision_named(const std::string& name);

struct ChipSpec {
  std::string name;                   // "a100-40": the first that it is called
  double fp32, tf32, half, fp8, fp4;  // dense FLOP/s; fp4 0: not built in
  double memory_bytes;                // that a process can allocate
  double memory_rate;                 // B/s
  double link_rate;                   // B/s per direction inside the scale-up domain
  double nic_rate;                    // B/s per accelerator between nodes, usual system
  double host_rate;                   // B/s per direction to the host's memory
  int domain;                         // accelerators on the fast link, usual system
  double matmul, matmul_low;  // share of the half and of the fp8 peak that the best large product reaches
  double peak(Precision p) const;     // falls back to the next wider type
  double accurate_fp32() const;       // fp32 products made of three tf32 ones (CUTLASS' 3xTF32)
  std::string chip() const;           // name without memory size and form
  double reached(Precision p) const;  // FLOP/s of the best large product
};

ChipSpec chip_of(const Machine& machine);
/// The same chip at the rates of a machine file: its tiers, peaks and memory.
ChipSpec at_rates_of(const ChipSpec& chip, const Machine& machine);

/// The one with the longest of its names in `gpu_type`, to which `intra_link` adds PCIe where it says so.
/// nullptr: unknown. Throws ConfigError where the machine files are not there.
const ChipSpec* chip_named(const std::string& gpu_type, const std::string& intra_link = "");

}  // namespace isobar
