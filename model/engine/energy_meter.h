// The energy that training takes: of a host's processors by RAPL, through Linux's powercap files (Intel's and
// AMD's), of a GPU by NVML. Counters only ever grow; what lies between two steps that train (validations,
// checkpoints) is left out.
//
//   EnergyMeter meter(rapl_counters());
//   meter.run(); … steps …; meter.pause();
//   meter.joules() / meter.seconds()            // watts; without counters why() says why there are none
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace isobar {

struct EnergyCounter {
  std::string name;                             // "package-0", "dram of package-0", "GPU"
  std::function<std::optional<double>()> read;  // joules since some moment; none: it does not answer
  double wraps_at = 0;                          // joules; 0: never
};

struct EnergyCounters {
  std::vector<EnergyCounter> all;
  std::string why;  // there are none
};

/// Processor packages and their memory, of all of this host whoever uses it. Other domains lie within these.
EnergyCounters rapl_counters(const std::filesystem::path& powercap = "/sys/class/powercap");

class EnergyMeter {
 public:
  explicit EnergyMeter(EnergyCounters counters) : counters_(std::move(counters)) {}
  void reset();  // forgets what was measured
  /// Measures until pause(); where it does already, looks before a counter can have wrapped twice.
  void run();
  void pause();
  bool on() const { return !counters_.all.empty(); }
  const std::string& why() const { return counters_.why; }
  double joules() const { return joules_; }
  double seconds() const { return seconds_; }
  std::string names() const;  // "package-0, package-1"

 private:
  void look();
  EnergyCounters counters_;
  std::vector<double> at_;  // each counter's, when it was looked at last
  bool running_ = false;
  int64_t looked_ns_ = 0;
  double joules_ = 0, seconds_ = 0;
};

}  // namespace isobar
