// Plausible ranges of a machine file's numbers: one table of every key with a unit, wide enough for any
// machine ever built and narrow enough to detect a wrong unit.
//
//   implausible("tiers.net.bandwidth", 525)   // "is 525 B/s, and ... plausible is 1e+06 to 1e+14 B/s",
//                                             // "did you mean 525e9 (GB/s)?"
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace isobar::perf {

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
