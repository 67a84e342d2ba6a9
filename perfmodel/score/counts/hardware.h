// Accelerators of published runs by their names in tables: spec-sheet rates, nothing fitted, from Isobar's
// machine files (configs/machines) and their `called` names. A new chip is a new file there.
//
//   const ChipSpec* a = chip_named("A100-80GB-SXM (Selene)");   // nullptr: unknown
//   unknown_chip("H1000")                                       // names the nearest
//   a->peak(Precision::bf16)                                               // FLOP/s, dense
#pragma once
#include <optional>
#include <string>

#include "perfmodel/machine/machine.h"

namespace isobar::perf {

enum class Precision { fp32, tf32, bf16, fp8, fp4 };
/// bf16, fp16, fp16-amp, mxfp8, nvfp4, ...; nullopt: unknown.
std::optional<Precision> precision_named(const std::string& name);

struct ChipSpec {
  std::string name;                   // "a100-40gb": the first of its names
  double fp32, tf32, half, fp8, fp4;  // dense FLOP/s; fp4 0: not supported
  double memory_bytes;                // allocatable by a process
  double memory_rate;                 // B/s
  double link_rate;                   // B/s per direction inside the scale-up domain
  double nic_rate;                    // B/s per accelerator between nodes, usual system
  double link_latency, nic_latency;   // s, of one message
  double host_rate;                   // B/s per direction to the host's memory
  int domain;                         // accelerators on the fast link, usual system
  bool sockets;                       // beyond it are other sockets of the host, no NICs
  double matmul, matmul_low;          // shares of the half and fp8 peaks that the best large product reaches
  double peak(Precision p) const;     // falls back to the next wider type
  double accurate_fp32() const;       // fp32 products made of three tf32 ones (CUTLASS' 3xTF32)
  std::string chip() const;           // name without memory size and form factor
  double reached(Precision p) const;  // FLOP/s of the best large product
};

/// True for chips with fp8 products, all of which are younger than flash attention (2022).
bool is_after_flash(const ChipSpec& chip);

ChipSpec chip_of(const Machine& machine);
/// The chip with a machine file's tiers, peaks and memory.
ChipSpec at_rates_of(const ChipSpec& chip, const Machine& machine);

/// The chip of which a `called` name and `gpu_type` agree word for word, except for vendor, form factor, kind
/// of memory, the chip's own memory size, and text in parentheses. `intra_link` with PCIE adds that word.
/// nullptr: unknown. Throws ConfigError if the machine files are missing.
const ChipSpec* chip_named(const std::string& gpu_type, const std::string& intra_link = "");
/// Why a row with such a name is refused, with the nearest known names.
std::string unknown_chip(const std::string& gpu_type);

}  // namespace isobar::perf
