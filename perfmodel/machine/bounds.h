// What a number of a machine file can be: one table of every key that has a unit, wide enough for any machine
// that was ever built and narrow enough to show a number in the wrong unit.
//
//   implausible("tiers.net.bandwidth", 525)   // "is 525 B/s, and ... plausible is 1e+06 to 1e+14 B/s",
//                                             // "did you mean 525e9 (GB/s)?"
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace isobar {

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
/// Of the key's value in its unit. nullopt: plausible, or a key without a unit.
std::optional<Implausible> implausible(const std::string& key, double value);

}  // namespace isobar
