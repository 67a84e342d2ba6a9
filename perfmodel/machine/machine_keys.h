// The keys of a machine file: one row each, from which the reader's check of names and the JSON schema come.
//
//   machine_keys_below("accelerator.tiers.host")     // ranks, bandwidth, links, …
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace isobar::perf {

/// Names directly below a section; "": of the file. Coefficients and peaks are known by their own tables.
std::vector<std::string> machine_keys_below(const std::string& section);

/// For `isobar config schema machine`. `cluster`: the schema of that section.
nlohmann::json machine_schema(nlohmann::json cluster);

// The peaks of a machine file by name, in the order in which they are written, and their units.

inline constexpr const char* kPeaks[] = {"f32", "tf32", "bf16", "fp8", "fp4", "memory"};
/// Peaks that a machine may lack.
inline bool may_be_absent(const std::string& peak) {
  return peak == "tf32" || peak == "fp8" || peak == "fp4";
}
inline std::string peak_unit(const std::string& peak, bool accelerator) {
  return peak == "memory" ? "B/s" : accelerator ? "FLOP/s" : "FLOP/s per core";
}

// Plausible ranges of a machine file's numbers: one table of every key with a unit, wide enough for any
// machine ever built and narrow enough to detect a wrong unit.

struct Bounds {
  std::string key;  // its path: accelerator.memory_bytes, peaks.memory.value
  std::string unit;
  double least, most;
};

struct Implausible {
  std::string what, mend;
};
/// Every key of a machine file that has a unit; coefficients by their names.
std::vector<Bounds> machine_keys();
/// nullopt: the value is plausible, or the key has no unit.
std::optional<Implausible> implausible(const std::string& key, double value);

}  // namespace isobar::perf
