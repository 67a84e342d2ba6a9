// The peaks of a machine file by name, in the order in which they are written, and their units.
#pragma once
#include <string>

namespace isobar::perf {

inline constexpr const char* kPeaks[] = {"f32", "tf32", "bf16", "fp8", "fp4", "memory"};
/// Peaks that a machine may lack.
inline bool may_be_absent(const std::string& peak) {
  return peak == "tf32" || peak == "fp8" || peak == "fp4";
}
inline std::string peak_unit(const std::string& peak, bool accelerator) {
  return peak == "memory" ? "B/s" : accelerator ? "FLOP/s" : "FLOP/s per core";
}

}  // namespace isobar::perf
